"""The recipe of the float networks."""
