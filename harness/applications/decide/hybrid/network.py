"""The hybrid architecture as a network: the network that was decided, the checks, the safety net, and the selection.

    state --QuantizeLinear--> codes [--Slice--> the codes without the age] --> the network's layers --> network
    state --Position--> positions among the cuts --CheckPositions--> failed
                                                 --CellUnion------> unsafe
    state --Position--> positions among the points --CellUnion----> advisories
    network, advisories, failed, unsafe --HybridSelect--> selected: the advisory, and the checks that fail

Every layer reads what ONNX says, and is compared, proved and bounded like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.canonical import value_info
from harness.model.network import Network
from harness.model.transforms.edit import declare_functions
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.cell_union import UINT16, UINT32
from harness.operators.hybrid_select import NOT_FINITE, OUTSIDE, STALE, UNSAFE
from harness.operators.node import DEFAULT_DOMAIN
from harness.operators.onnx_function import DOMAIN, OLDEST_OPSET
from harness.operators.position import MOST_CUTS
from harness.operators.position import NOT_FINITE as POSITION_NOT_FINITE
from harness.operators.tensor import FLOAT32, INT64

CODES = 256
MARGIN = 64
"""The input box exceeds the domain by 1 / MARGIN of each axis, and the limit of the age by 1 / 8: stimuli then reach
every branch."""
LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True)
class Freshness:
    """The age of the input, one more value behind the others: fresh from 0 to `limit`, both included."""

    name: str
    unit: str
    limit: np.float32


@dataclass(frozen=True, eq=False)
class Architecture:
    """The tables of the checks and of the safety net.

    `cuts` are the float32 cuts of each axis in units of the network, `wraps` whether both ends are the same value.
    `unsafe` is bool, one cell for each interval of each axis.  `thresholds` separate the cells around the points of the
    table, one less than points; `advisories` is uint8, the set of advisories at each point.
    """

    cuts: Sequence[npt.NDArray[np.float32]]
    wraps: Sequence[bool]
    unsafe: npt.NDArray[np.bool_]
    thresholds: Sequence[npt.NDArray[np.float32]]
    advisories: npt.NDArray[np.uint8]
    freshness: Freshness | None


def with_architecture(network: Network, architecture: Architecture, metadata: dict[str, str]) -> onnx.ModelProto:
    """Return the network with checks, safety net and selection; `metadata` is added to that of the network.

    RequestError if the network does not end with the index of a score, if a name is taken, or if cuts coincide.
    """
    model = onnx.load_model_from_string(network.onnx_bytes)
    _require(model, network, architecture)
    graph, decided = model.graph, network.layers[-1].output.name
    width = network.float_input("a hybrid architecture").size
    if architecture.freshness:
        width += 1
        _add_age(graph, network)
    source = network.vector.name
    next(value for value in graph.input if value.name == source).CopyFrom(value_info(source, FLOAT32, width))
    for name, values in _tables(architecture).items():
        graph.initializer.append(numpy_helper.from_array(values, name))
    graph.node.extend(_nodes(source, decided, len(architecture.cuts)))
    graph.output.append(value_info("selected", INT64, 2))
    declare_functions(model)
    del model.metadata_props[:]
    helper.set_model_props(model, _metadata(network, architecture) | metadata)
    return model


def decision_diagram(grid: Array) -> list[Array]:
    """Return the levels of a grid of uint8, one an axis: (nodes, cells), each equal part of the grid stored once.

    An entry of the last level is a value of the grid, of another level the row of the next one.
    """
    levels: list[Array] = []
    entries = np.ascontiguousarray(grid)
    for axis in reversed(range(grid.ndim)):
        rows = np.ascontiguousarray(entries.reshape(-1, grid.shape[axis]))
        _, first, number = np.unique(_as_items(rows), return_index=True, return_inverse=True)
        levels.insert(0, rows[first])
        entries = number.reshape(grid.shape[:axis]).astype(UINT16 if len(first) <= 1 << 16 else UINT32)
    return levels


def _as_items(rows: Array) -> Array:
    """Return one item for each row, so that rows are compared as a whole."""
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)


def sides(cells: int, *, wraps: bool) -> npt.NDArray[np.uint8]:
    """Return the lower and the upper cell of each position, uint8 (2, 256), of an axis with so many cells.

    A position beyond the axis has the outermost cell; with `wraps` both ends belong to the first and the last cell.
    """
    position = np.arange(CODES)
    both = np.stack([position // 2 - 1, (position - 1) // 2])
    ends = both % cells if wraps else np.clip(both, 0, cells - 1)
    beyond = (position == 0) | (position > 2 * cells + 1)
    return np.where(beyond, np.clip(both, 0, cells - 1), ends).astype(np.uint8)


def _require(model: onnx.ModelProto, network: Network, architecture: Architecture) -> None:
    """Refuse what the nodes cannot be added to."""
    opset = next(int(entry.version) for entry in model.opset_import if entry.domain in DEFAULT_DOMAIN)
    if opset < OLDEST_OPSET:
        raise RequestError(
            f"model {network.name!r} is of opset {opset}",
            f"give it opset {OLDEST_OPSET} or later: onnx.version_converter",
        )
    if not isinstance(network.layers[-1], ArgExtremum):
        raise RequestError(f"model {network.name!r} ends with scores", "add an ArgMax or ArgMin over its scores")
    taken = {value.name for value in model.graph.initializer} | {
        name for node in model.graph.node for name in (*node.input, *node.output, node.name)
    }
    new = {
        *_tables(architecture),
        *(out for node in _nodes("", "", 0) for out in (*node.output, node.name)),
        AGE,
        CODES_OF_ALL,
    }
    if both := sorted(taken & new):
        raise RequestError(f"model {network.name!r} has the name {both[0]!r}", "rename it: the hybrid network needs it")
    for name, rows in (("cuts", architecture.cuts), ("points", architecture.thresholds)):
        for axis, row in enumerate(rows):
            if (row[1:] <= row[:-1]).any():
                at = int(np.argmax(row[1:] <= row[:-1]))
                raise RequestError(
                    f"axis {axis}: the {name} {row[at]} and {row[at + 1]} are the same float32, or do not increase",
                    "state cuts that are further apart",
                )
            if len(row) > MOST_CUTS - 2:
                raise RequestError(f"axis {axis} has {len(row)} {name}", f"at most {MOST_CUTS - 2}")


AGE, CODES_OF_ALL = "without_age", "codes_with_age"


def _add_age(graph: onnx.GraphProto, network: Network) -> None:
    """Let QuantizeLinear read the age too, and take its code away before the other layers read the codes."""
    [reader] = [node for node in graph.node if network.vector.name in node.input]
    codes = reader.output[0]
    reader.output[0] = CODES_OF_ALL
    bounds = {"first_state": [0], "behind_state": [network.vector.size], "state_axis": [1]}
    for name, values in bounds.items():
        graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
    taken = helper.make_node("Slice", [CODES_OF_ALL, *bounds], [codes], name=AGE)
    nodes = list(graph.node)
    del graph.node[:]
    place = nodes.index(reader) + 1
    graph.node.extend([*nodes[:place], taken, *nodes[place:]])


def _tables(architecture: Architecture) -> dict[str, Array]:
    freshness = architecture.freshness
    ages = [np.array([0, freshness.limit], np.float32)] if freshness else []
    outer = [np.concatenate([[-LARGEST], row, [LARGEST]]).astype(np.float32) for row in architecture.thresholds]
    found: dict[str, Array] = {
        "domain_cuts": _rows([*architecture.cuts, *ages]),
        "table_points": _rows([*outer, *(row[:0] for row in ages)]),
        "failed_checks": np.stack(
            [*(_flags(len(row), OUTSIDE) for row in architecture.cuts), *(_flags(len(row), STALE) for row in ages)]
        ),
    }
    unsafe = np.where(architecture.unsafe, UNSAFE, 0).astype(np.uint8)
    for name, grid, wraps in (
        ("box", unsafe, architecture.wraps),
        ("point", architecture.advisories, [False] * architecture.advisories.ndim),
    ):
        cells = [sides(count, wraps=wrap) for count, wrap in zip(grid.shape, wraps, strict=True)]
        found[f"{name}_cells"] = np.concatenate(cells)
        found |= {f"{name}_level_{axis}": level for axis, level in enumerate(decision_diagram(grid))}
    return found


def _rows(cuts: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    rows = np.full((len(cuts), max(1, *map(len, cuts))), np.inf, np.float32)
    for row, of_axis in zip(rows, cuts, strict=True):
        row[: len(of_axis)] = of_axis
    return rows


def _flags(cuts: int, flag: int) -> npt.NDArray[np.uint8]:
    """Return the failed checks of each position of an axis whose first and last cut belong to it."""
    position = np.arange(CODES)
    outside = (position == 0) | (position > 2 * cuts - 1)
    return np.where(position == POSITION_NOT_FINITE, NOT_FINITE, np.where(outside, flag, 0)).astype(np.uint8)


def _nodes(source: str, decided: str, axes: int) -> Iterator[onnx.NodeProto]:
    levels = [[f"{name}_level_{axis}" for axis in range(axes)] for name in ("box", "point")]
    for name, operator, inputs, output in (
        ("locate_box", "Position", [source, "domain_cuts"], "box_position"),
        ("check_input", "CheckPositions", ["box_position", "failed_checks"], "failed"),
        ("check_box", "CellUnion", ["box_position", "box_cells", *levels[0]], "unsafe"),
        ("locate_point", "Position", [source, "table_points"], "point_position"),
        ("look_up_table", "CellUnion", ["point_position", "point_cells", *levels[1]], "advisories"),
        ("select", "HybridSelect", [decided, "advisories", "failed", "unsafe"], "selected"),
    ):
        yield helper.make_node(operator, inputs, [output], name=name, domain=DOMAIN)


def _metadata(network: Network, architecture: Architecture) -> dict[str, str]:
    """Return the metadata with the age, and with a box around the domain that reaches every branch."""
    found = dict(network.metadata)
    low, high = ([float(row[end]) for row in architecture.cuts] for end in (0, -1))
    margins = [(above - below) / MARGIN for below, above in zip(low, high, strict=True)]
    low = [below - margin for below, margin in zip(low, margins, strict=True)]
    high = [above + margin for above, margin in zip(high, margins, strict=True)]
    freshness = architecture.freshness
    if freshness:
        low, high = [*low, 0.0], [*high, float(freshness.limit) * (1 + 1 / 8)]
    found |= {"input_box_low": json.dumps(low), "input_box_high": json.dumps(high)}
    if freshness and network.normalisation:
        of_age = {"input_names": freshness.name, "input_units": freshness.unit, "input_mean": 0.0, "input_range": 1.0}
        found |= {key: json.dumps([*json.loads(found[key]), value]) for key, value in of_age.items()}
    return found
