"""The tables of De Albuquerque Silva et al., ACETONE, ECRTS 2022, each number of the paper beside ours.

The paper's versions V1, V2 and V3 are the variants c:generic, c:inlined and c:unrolled of target c.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.tables import acetone_numbers as numbers
from benchmarks.tables.acetone_numbers import OTHERS
from benchmarks.tables.builds import Built, Checked, Readings
from benchmarks.tables.document import NOT_MEASURED, CellEntry, Sources, TableEntry, label, table
from benchmarks.tables.peers import Peer
from harness.core.document import Number
from harness.model.text.facts import parameter_count

MODELS = ("acas_reg50", "acas_reg100", "acas_reg200", "acas_decr128", "acas_decr256", "lenet5", "cifarnet", "alexnet",
          "vgg16")  # fmt: skip
NAMES = dict(zip(MODELS, numbers.NETWORKS, strict=True))
CODES = ("c:generic", "c:inlined", "c:unrolled", "c", "c:vector")
VERSIONS = {"c:generic": "V1", "c:inlined": "V2", "c:unrolled": "V3"}
LEVELS = ("-O0", "-O3")
SECTIONS = ("text", "constants", "data", "bss")
READINGS = {"minimum": "minimum", "mean": "mean", "executions": "n"}
NOT_GIVEN = "not in the paper"
OTAWA = "OTAWA, lpc2138, -O0, cycles"
CORTEX_A15 = "Cortex-A15 of Keystone II, code and data in DDR, {}, mean of 50 executions, cycles"


@dataclass(frozen=True)
class Examined:
    """Results for one network of the paper; `case` is None if its model is absent."""

    model: str
    case: Checked | None
    builds: Sequence[Built] = ()
    peers: Sequence[Peer] = ()

    @property
    def name(self) -> str:
        """The network's name in the paper."""
        return NAMES[self.model]

    @property
    def absent(self) -> str:
        """The reason for empty cells."""
        return NOT_MEASURED if self.case else absent(self.model)


Cells = dict[str, CellEntry]


def absent(model: str) -> str:
    """Return how to make a model that is absent."""
    return f"models/{model}.onnx is absent; make it: .venv/bin/python -m models.floats {model}"


def tables(networks: Sequence[Examined], boards: Sequence[str], sources: Sources) -> tuple[TableEntry, ...]:
    """Return all tables; `sources` collects where their numbers come from."""
    return (
        _networks(networks, sources),
        _semantics(networks, sources),
        *(_times(networks, boards, level, sources) for level in LEVELS),
        _worst_cases(networks, sources),
        _memory(networks, sources),
        _whole_programs(networks, sources),
    )


def _networks(networks: Sequence[Examined], sources: Sources) -> TableEntry:
    rows = []
    for examined in networks:
        origin, known = f"models/{examined.model}.onnx", examined.case.network if examined.case else None
        rows.append({
            "network": label(examined.name),
            "parameters": sources.cell(parameter_count(known) if known else None, origin, examined.absent),
            "parameters_paper": _paper(sources, "sections 4.1 and 5", numbers.PARAMETERS.get(examined.name)),
            "flop": sources.cell(known.operations if known else None, origin, examined.absent),
            "flop_paper": _paper(sources, "section 4.1", numbers.OPERATIONS.get(examined.name)),
        })  # fmt: skip
    return _table(
        "networks",
        "Section 4.1: the networks",
        "FLOP as TensorFlow's profiler counts them: two for each product, one for each added bias and for each value "
        "of a pooling window, five for each value of Softmax, none for Relu and Tanh. This gives the paper's number "
        "for LeNet-5. Our AlexNet has one column (Krizhevsky, 2014); the paper does not state the widths of its own.",
        ("network", "parameters", "parameters_paper=parameters", "flop=FLOP", "flop_paper=FLOP"),
        rows,
    )


def _semantics(networks: Sequence[Examined], sources: Sources) -> TableEntry:
    rows = []
    for examined in networks:
        ran = [built.readings for built in examined.builds if built.readings]
        wrong = sum(readings.differing > 0 for readings in ran)
        verdict = f"{'differs' if wrong else 'identical'}: {wrong or len(ran)} of {len(ran)}"
        fewest = min((readings.vectors for readings in ran), default=0)
        on = ", ".join(dict.fromkeys(built.board for built in examined.builds))
        origin = f"programs of target c on {on}, {fewest:,} or more of the vectors each"
        count = (len(examined.case.vectors) or None) if examined.case else None
        error = examined.case.largest_difference if examined.case and ran and not wrong else None
        compared = f"outputs of all of these vectors by the specification and by ONNX Runtime; {origin}"
        rows.append({
            "network": label(examined.name),
            "verdict": sources.cell(verdict if ran else None, origin, examined.absent),
            "vectors": sources.cell(count, compared, examined.absent),
            "error": sources.cell(error, compared, examined.absent),
            **{f"paper_{key}": _paper(sources, "table 1: 1000 tests on x86", numbers.ERRORS.get((examined.name, key)))
               for key in ("V1", *OTHERS)},
        })  # fmt: skip
    return _table(
        "semantics",
        "Table 1: semantic preservation",
        "Each program's outputs are compared bit for bit with the exact specification; programs that are identical to "
        "it have its difference from ONNX Runtime, which adds in another order, as Keras does in the paper.",
        ("network", "verdict=programs and specification", "vectors", "error=largest |C - ONNX Runtime|",
         "paper_V1=ACETONE V1", *(f"paper_{name}={name}" for name in OTHERS)),
        rows,
    )  # fmt: skip


def _times(networks: Sequence[Examined], boards: Sequence[str], level: str, sources: Sources) -> TableEntry:
    number = 2 + LEVELS.index(level)
    cycles, how = numbers.CYCLES[level], f"table {number}: {CORTEX_A15.format(level)}"
    rows: list[Cells] = []
    for examined in networks:
        built = {(one.code.target, one.board): one for one in examined.builds if one.code.level == level}
        for target in dict.fromkeys(one.code.target for one in examined.builds):
            cells = {"network": label(examined.name), "code": label(_title(target))}
            for board in boards:
                cells |= _time_cells(built[target, board], sources) if (target, board) in built else {}
            rows.append(cells | {"paper": _paper(sources, how, cycles.get((examined.name, VERSIONS.get(target, ""))))})
        if not examined.case:
            missing = CellEntry(missing=examined.absent)
            rows.append(
                {"network": label(examined.name)} | {f"{board}_{key}": missing for board in boards for key in READINGS}
            )
        peers = examined.peers if level == LEVELS[-1] else ()
        rows += [_peer_cells(examined, peer, boards[0], sources) for peer in peers]
        rows += [
            {
                "network": label(examined.name),
                "code": label(name),
                "paper": _paper(sources, how, cycles[examined.name, name]),
            }
            for name in OTHERS
            if (examined.name, name) in cycles
        ]
    heads = [f"{board}_{key}={board}, {title}" for board in boards for key, title in READINGS.items()]
    return _table(
        f"times_{_level(level)}",
        f"Table {number}: execution times, {level}",
        "One vector on one core: ns on hardware, counted instructions on an emulated board. Other load changes the "
        "minimum least; the paper gives the mean of 50 executions in cycles. Times of other tools were measured apart, "
        "with their own options, see their sources.",
        ("network", "code", *heads, "paper=Cortex-A15, cycles"),
        rows,
    )


def _time_cells(built: Built, sources: Sources) -> Cells:
    board, readings = built.board, built.readings
    if readings is None:
        return {f"{board}_{key}": CellEntry(missing=built.missing or NOT_MEASURED) for key in READINGS}
    origin = f"{built.origin}; {readings.unit}; {readings.state}"
    wrong = f"{readings.differing:,} outputs differ from the specification" if readings.differing else ""
    values = (int(readings.values.min()), round(float(readings.values.mean())), len(readings.values))
    return {
        f"{board}_{key}": sources.cell(None if wrong else value, origin, wrong)
        for key, value in zip(READINGS, values, strict=True)
    }


def _peer_cells(examined: Examined, peer: Peer, board: str, sources: Sources) -> Cells:
    """Return the row of another tool; its document has no mean."""
    values = {"minimum": peer.minimum_ns, "executions": peer.calls}
    cells = {f"{board}_{key}": sources.cell(value, peer.origin, peer.failure) for key, value in values.items()}
    no_mean = CellEntry(missing=peer.failure or "run_peers.py reports minimum and median")
    return {"network": label(examined.name), "code": label(peer.name)} | cells | {f"{board}_mean": no_mean}


def _worst_cases(networks: Sequence[Examined], sources: Sources) -> TableEntry:
    rows: list[Cells] = []
    for examined in networks:
        for built in examined.builds:
            readings = built.readings if built.readings and built.readings.unit == "instructions" else None
            if not readings and not built.bound:
                continue
            version = VERSIONS.get(built.code.target, "") if built.code.level == LEVELS[0] else ""
            rows.append(
                _names(examined, built)
                | _bound_cells(built, readings, sources)
                | {"paper": _paper(sources, f"table 4: {OTAWA}", numbers.BOUNDS.get((examined.name, version)))}
            )
        rows += [
            {"network": label(examined.name), "code": label(name), "level": label(_level(LEVELS[0]))}
            | {"paper": _paper(sources, f"table 4: {OTAWA}", numbers.BOUNDS[examined.name, name])}
            for name in OTHERS
            if (examined.name, name) in numbers.BOUNDS
        ]
    return _table(
        "wcet",
        "Table 4: worst cases",
        "Instructions of one execution of the network: the bound of all layers, and the largest count on the emulated "
        "board. A count has more for each layer: its call and two readings of the counter, the same for all layers; "
        "what counts exceed bounds by, at least, in layers that always execute as many. The ratio is without them. "
        "The paper's bounds are cycles; OTAWA ran out of memory for V3, AlexNet and VGG-16.",
        (
            *NAMES_OF_A_BUILD,
            "bound",
            "counted=counted maximum",
            "cost=of these, readings",
            "ratio",
            "paper=bound, cycles",
        ),
        rows,
    )


def _bound_cells(built: Built, readings: Readings | None, sources: Sources) -> Cells:
    bound, most = built.bound, int(readings.values.max()) if readings else None
    per_layer = bound.cost_of_reading(readings) if bound and readings else None
    cost = per_layer * len(bound.layers) if bound and per_layer is not None else None
    ratio = bound.instructions / (most - cost) if bound and most and cost is not None else None
    reason = built.no_bound or built.missing or "no layer always executes as many instructions"
    return {
        "bound": sources.cell(bound.instructions if bound else None, f"{built.origin}; harness wcet", built.no_bound),
        "counted": sources.cell(most, f"{built.origin}; {readings.state if readings else ''}", built.missing),
        "cost": sources.cell(cost, f"{built.origin}; counted maximum less bound, by layer", reason),
        "ratio": sources.cell(ratio, "bound / (counted maximum - readings)", reason),
    }


def _memory(networks: Sequence[Examined], sources: Sources) -> TableEntry:
    rows: list[Cells] = []
    for examined in networks:
        for built in examined.builds:
            version = VERSIONS.get(built.code.target, "") if built.code.level == LEVELS[0] else ""
            deepest = built.bound.stack if built.bound else None
            stack = {"stack": sources.cell(deepest, f"{built.origin}; harness wcet", built.no_bound)}
            paper = _paper_memory(examined.name, version, sources)
            rows.append(_names(examined, built) | stack | _size_cells(built, "network", sources) | paper)
        rows += [
            {"network": label(examined.name), "code": label(name), "level": label(_level(LEVELS[0]))}
            | _paper_memory(examined.name, name, sources)
            for name in OTHERS
            if (examined.name, name) in numbers.MEMORY
        ]
    return _table(
        "memory",
        "Table 5: memory of the network's code",
        "Bytes of network.c with its kernels, constants and buffers for one vector. The paper's weights are variables "
        "in .data; ours are constants.",
        (*NAMES_OF_A_BUILD, "stack", *SECTIONS, *(f"paper_{key}={key}" for key in numbers.SEGMENTS)),
        rows,
    )


def _whole_programs(networks: Sequence[Examined], sources: Sources) -> TableEntry:
    rows = [
        _names(examined, built) | _size_cells(built, "program", sources)
        for examined in networks
        for built in examined.builds
    ]
    return _table(
        "programs",
        "Memory of the whole program",
        "Bytes of all sections in memory; the program also reads vectors, measures, dumps, and answers a proof.",
        (*NAMES_OF_A_BUILD, *SECTIONS),
        rows,
    )


NAMES_OF_A_BUILD = ("network", "code", "level", "board")


def _names(examined: Examined, built: Built) -> Cells:
    names = (examined.name, _title(built.code.target), _level(built.code.level), built.board)
    return {key: label(name) for key, name in zip(NAMES_OF_A_BUILD, names, strict=True)}


def _size_cells(built: Built, part: str, sources: Sources) -> Cells:
    section = built.sizes.get(part)
    origin = f"{built.origin}; symbols and sections of the ELF file"
    return {key: sources.cell(getattr(section, key) if section else None, origin, built.missing) for key in SECTIONS}


def _paper_memory(network: str, framework: str, sources: Sources) -> Cells:
    values = numbers.MEMORY.get((network, framework), (None,) * len(numbers.SEGMENTS))
    return {
        f"paper_{key}": _paper(sources, "table 5: compiled for Cortex-A15", value)
        for key, value in zip(numbers.SEGMENTS, values, strict=True)
    }


def _paper(sources: Sources, place: str, value: Number | str | None) -> CellEntry:
    return sources.cell(value, f"the paper, {place}", NOT_GIVEN)


def _level(flag: str) -> str:
    """Return an optimisation without the hyphen, which a spreadsheet takes for a formula."""
    return flag.strip("-")


def _title(target: str) -> str:
    return f"{target} ({VERSIONS[target]})" if target in VERSIONS else target


def _table(
    name: str, title: str, note: str, heads: Iterable[str], rows: Sequence[Mapping[str, CellEntry]]
) -> TableEntry:
    return table(name, title, note, heads, rows, NAMES_OF_A_BUILD)


def differing(networks: Sequence[Examined]) -> Iterator[str]:
    """Yield the programs whose outputs are wrong."""
    for examined in networks:
        for built in examined.builds:
            if built.readings and built.readings.differing:
                yield f"{examined.model}, {built.code.target} {built.code.level} on {built.board}"
