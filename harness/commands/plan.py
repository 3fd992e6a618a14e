"""`harness plan`: which item computes which layers, and where they hand over."""

from __future__ import annotations

from rich.table import Table

from harness import bundle, plan, profile, targets
from harness.plan import Plan
from harness.profile import Profile
from harness.screen import Screen
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


def plan_document(made: Plan, board: Profile) -> dict[str, object]:
    """The plan as JSON types."""
    layers = made.network.layers
    items = [
        {
            "name": item.name,
            "target": item.target,
            "core": item.core,
            "ran_on": targets.find(item.target).ran_on(board),
            "layers": [layer.name for layer, owner in zip(layers, made.owner, strict=True) if owner == index],
        }
        for index, item in enumerate(made.items)
    ]
    barriers = [{"name": b.name, "items": [made.items[i].name for i in b.items]} for b in made.barriers]
    return {"board": made.board, "model": made.network.name, "block": made.block, "items": items, "barriers": barriers}


def plan_table(made: Plan, board: Profile) -> Table:
    """One row a layer; a rule where items hand over."""
    where = "emulated" if board.emulated else "this machine" if board.local else "hardware"
    title = f"{made.network.name} on {made.board} ({where}), blocks of {made.block} vectors"
    table = Table(title=title, title_justify="left", title_style="bold")
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
