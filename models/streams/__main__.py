"""`python -m models.streams [NAME ...]`: make the networks again."""

from __future__ import annotations

from models.recipe import command_of
from models.streams.networks import NETWORKS

if __name__ == "__main__":
    command_of(NETWORKS)()
