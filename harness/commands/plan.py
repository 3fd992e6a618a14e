"""`harness plan`: which item computes which layers, and where they hand over."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from harness import bundle, plan, profile
from harness.plan import Plan
from harness.profile import Profile
from harness.screen import Screen
from harness.verdict import kind, plan_document
from harness.workspace import Workspace


def show(
    board: str, model: str, items: tuple[str, ...] | None, block: int | None, workspace: Workspace, screen: Screen
) -> None:
    """Make the plan, check that its targets can compute it, and print it."""
    found = profile.load(workspace.boards).board(board)
    made = plan.make(workspace.model(model), found, items, block)
    bundle.check_targets(made)
    screen.show(plan_table(made, found))
    screen.document(plan_document(made, found))


def plan_table(made: Plan, board: Profile) -> Table:
    """One row a layer; a rule where items hand over."""
    title = f"{made.network.name} on {made.board} ({kind(board)}), blocks of {made.block} vectors"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("layer", "operator", "shape", "type", "item", "target", "core"):
        table.add_column(heading)
    handing_over = {barrier.name for barrier in made.barriers}
    for layer, owner in zip(made.network.layers, made.owner, strict=True):
        item = made.items[owner]
        core = "any" if item.core is None else str(item.core)
        shape = f"{layer.input_width} -> {layer.width}"
        cells = (layer.name, layer.operator, shape, str(layer.dtype), item.name, item.target, core)
        table.add_row(*cells, end_section=layer.name in handing_over)
    return table
