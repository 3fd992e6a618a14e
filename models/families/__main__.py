"""`python -m models.families [NAME ...]`: make the networks again."""

from __future__ import annotations

from models.families.selecting import NETWORKS
from models.recipe import command_of

if __name__ == "__main__":
    command_of(NETWORKS)()
