"""Coloured Petri nets: values, reachable markings, structure, exchange as PNML, and pictures.

Nothing here knows of plans or items; `harness.plan.items.translation` makes nets of these.
"""

from harness.plan.petri.net import Kind, Marking, Net, Tokens, Transition

__all__ = ["Kind", "Marking", "Net", "Tokens", "Transition"]
