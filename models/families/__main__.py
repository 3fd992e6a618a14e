"""`python -m models.families [NAME ...]`: make the networks again."""

from __future__ import annotations

from models.families import quantised, selecting
from models.recipe import command_of

if __name__ == "__main__":
    command_of({**selecting.NETWORKS, **quantised.NETWORKS})()
