"""The table of a plan on the terminal."""

from __future__ import annotations

from harness.boards.profile import Profile
from harness.core.table import Table
from harness.core.text import plural
from harness.model.importer.changes import changes_of
from harness.plan import claims
from harness.plan.plan import Plan
from harness.runs.document import kind


def plan_table(plan: Plan, board: Profile) -> Table:
    """Return a table with one row per task and a line at each synchronisation of items."""
    way = f"pipeline of {plan.depth} stages" if plan.depth > 1 else f"by {plan.sync}" if plan.hand_overs else "one item"
    title = f"{plan.network.name} on {plan.board} ({kind(board)}), blocks of {plural(plan.block, 'vector')}, {way}"
    table = Table(
        "layer", "operator", "shape", "type", "item", "target", "core", optional=("shape", "type", "core"), title=title
    )
    staged = plan.depth > 1
    if staged:
        table.add_column("stage")
        table.add_column("buffers")
    promises = claims.claims(plan) if claims.bounded(plan) else ()
    if promises:
        table.add_column("claim")
    handing_over = {hand_over.name for hand_over in plan.hand_overs}
    for index, task in enumerate(plan.tasks):
        part, item = plan.part(task), plan.items[task.item]
        core = "any" if item.core is None else str(item.core)
        shape = f"{part.input.shape_text} -> {part.output.shape_text}"
        cells = [task.name, part.operator, shape, str(part.dtype), item.name, item.target, core]
        stage = [str(task.stage), str(task.buffers)] if staged else []
        table.add_row(*cells, *stage, *promises[index : index + 1], end_section=task.name in handing_over)
    if changes := changes_of(plan.network.metadata):
        table.caption, table.caption_justify = "\n".join(["the network of the file, after:", *changes]), "left"
    return table
