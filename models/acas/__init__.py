"""The recipe of the ACAS networks beside this folder: `python -m models.acas` makes them anew from nothing."""
