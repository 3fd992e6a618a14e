"""What goes wrong when PTX runs."""

from __future__ import annotations


class PtxError(Exception):
    """PTX does what it must not, or what the interpreter does not know; the message names the instruction."""
