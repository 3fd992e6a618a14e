"""docs/mutation.md: what the campaign found, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analysis.proof import ProofStep
from harness.core.installation import ROOT
from tests.campaigns.mutation import target_cuda, target_tiovx, target_vitis
from tests.campaigns.mutation.campaign import COMPOSED, Guard, Named, Outcome
from tests.campaigns.mutation.mutants import MUTANTS
from tests.campaigns.mutation.networks import NETWORKS, VECTORS, networks_of

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
PAGE = ROOT / "docs" / "mutation.md"
SAME, SENSELESS, EQUAL, HELD, NOTHING = "=", "-", "equal", "holds", ""

INTRODUCTION = f"""# What finds a wrong program

Every mistake that is known of quantised networks, and some others, was built into the kernels, the constants or the
schedule of an otherwise right program. Each such mutant was compiled for each of {len(NETWORKS)} small networks
(those of accelerators for some of them),
deployed on the board `host`, and tried as [`harness prove`](prove-a-model.md) tries a program: by the argument, and by
a run of {VECTORS:,} seeded vectors with its diagnosis. This page is written by `python -m tests.campaigns.mutation`.
Programs that are wrong only in some state, in some mode or on some thread have a
[page of their own](mutation-hidden.md).

A mutant is found by the run if an activation differs, and by the proof if a claim does not hold. Its cause is named if
the diagnosis lists it among the causes that explain all that differs, for every layer that is wrong itself; and it is
named alone if for one of these layers there is no other. Where the run finds nothing, the proof diagnoses the end of a
QGemm. Some mutants have no name that the diagnosis knows; it must not give them another.

Every reachable accumulator and every input pass through a mutant, so that one of which all claims hold is shown to be
the same function, on that network. There are limits. Add is tried on samples, so that nothing is shown to be equal on
the network of a residual expansion. All 2^32 inputs pass through those mutants only that change how inputs are rounded,
through the others those inputs where the code changes. What a schedule does beside calling its stages, such as the
mutants that fuse a sum with what comes before it, shows in whole runs alone; under delays they have {COMPOSED} vectors
here.
"""
LEGEND = f"""In each cell: activations that differ in the run / steps of the
[argument](prove-a-model.md#the-argument) of which a claim fails / whether the cause is named. `{EQUAL}`: all claims
hold, it is the same function. `{HELD}`: all claims hold, some of them of samples. `{SAME}`: the compiler makes the same
program as without the mutant. What a deleted barrier does to a run depends on which item is faster at that time; the
proof slows each of them down in turn.
"""
GUARDS = f"""Before anything is claimed of a program, two guards have seen it. The build inspects the PTX, and refuses
whatever is no operation of the specification, or not known; the program refuses to start on a GPU that fails its
self-test, which calls the same functions. A mutant was tried past both all the same, to show what would find it if they
did not: `{Guard.BUILD.value}` and `{Guard.START.value}` before a cell say that they had refused it,
`{Guard.RUN.value}` that its run ended with an error. `{SAME}` is said of the network's own code: the self-test also has
functions that the network does not call.

All kernels ran as host-simulation of CUDA: the text of the kernels, compiled by g++, behind the driver's interface. A
thread there runs up to its next barrier before another begins. That shows what a deleted barrier can do, and always the
same; the race itself is found by ThreadSanitizer in `tests/simulators/cuda`. What NVRTC makes of the text is
computed in `tests/simulators/ptx`. Of those mutants only that change how inputs are rounded, not all 2^32 inputs pass,
but those where the code changes.
"""

DOUBLE = f"""The core computes QuantizeLinear and QGemm, an item of target `c` everything else, and the mutants of that
are those of target `c`. A core rounds by thresholds and has no floating point: what would go wrong in floating point
was put into the place of the thresholds. The thresholds themselves are constants, which step 1 of the argument
compares; a mutant whose other multipliers have the same thresholds is the same program. They are made for the
accumulators that the right sums can reach, so that a wrong sum beyond those becomes a code that no formula gives, and
the diagnosis then does not name the cause. Target `tiovx:mpu` has the same kernels, in the program's own process.

All kernels ran as host-simulation of TIOVX: their C text, compiled for this machine, under a double of the few
functions of TIOVX that they use, on a thread that stands for the DSP. What only the compiler for the C7x reads, the
loop over its VDOTP4SUBW, was not tried; the mutants of sums are changes of the loop in C. The build tries all
thresholds on every accumulator that the right sums can reach: `{Guard.BUILD.value}` before a cell says that it had
refused some, which were built in all the same. The double ends a program whose kernel touches what it has not mapped,
or leaves it mapped, or does whatever else could go wrong on the DSP and not here: `{Guard.RUN.value}` says that the run
ended so. As there are no activations then, none differs; every claim fails whose question to the kernel ends in the
same way.
"""
FABRIC = f"""The fabric computes QGemm, an item of target `c` everything else, and the mutants of that are those of
target `c`; so are those of a float32 output, whose accumulators the processor scales. A circuit rounds by thresholds
and has no floating point: what would go wrong there in floating point was put into the place of the thresholds. These
are constants, which the kernel tells and step 1 of the argument compares. As with those of a DSP, a wrong sum beyond
all that a right one can reach becomes a code that no formula gives, and the diagnosis then does not name the cause.

All kernels ran as host-simulation of Vitis HLS: their C++ text, compiled by g++, under a double of XRT. What Vitis
makes of the text was not tried; it has to check that itself, by its own simulation and at its own timing. The program
knows a kernel by the digest of its sources; a mutant claims that of the right one. The build tries all thresholds on
every accumulator that the right sums can reach: `{Guard.BUILD.value}` before a cell says that it had refused some,
which were built in all the same. The double ends a program that touches a buffer which a kernel has, reads what was
not synchronised, or does whatever else could go wrong on the board and not here, and so does a stream of which too
much or too little is read: `{Guard.RUN.value}` says that the run ended so. The network of a residual expansion is
computed by four kernels, each of the others by one. A run asks for records of all activations; the proof asks for those
of the last alone, too.
"""
ABOUT: Mapping[str, str] = {
    **dict.fromkeys(target_cuda.INJECTIONS, GUARDS),
    target_tiovx.C7X: DOUBLE,
    target_vitis.VITIS: FABRIC,
}
"""What is to be said of a target before its tables."""


@dataclass(frozen=True)
class Cell:
    """A mutant of a target on a network; without an outcome the compiler made the same program as without it."""

    target: str
    mutant: str
    network: str
    outcome: Outcome | None


def page(cells: Sequence[Cell], faults: Mapping[str, str], where: str) -> str:
    """The whole page; `where` names compiler, machine and day, `faults` what each came to."""
    parts = [INTRODUCTION, where + "\n"]
    for target in dict.fromkeys(cell.target for cell in cells):
        own = [cell for cell in cells if cell.target == target]
        guarded = target in target_cuda.INJECTIONS
        about = [ABOUT[target]] if target in ABOUT else []
        parts += [f"## Target `{target}`\n", *about, _totals(own, guarded=guarded)]
        parts += [_summary(own, guarded=guarded), LEGEND, _details(own), *_senseless(target)]
    parts += ["## Around the network\n", _table(("what is wrong", "verdict"), faults.items())]
    return "\n".join(parts)


def _senseless(target: str) -> Iterator[str]:
    """Which mutants this target cannot have."""
    reasons = {mutant.name: mutant.senseless(target) or NOTHING for mutant in MUTANTS if mutant.senseless(target)}
    yield f"Mutants without a meaning here (`{SENSELESS}`), and why:\n"
    yield "".join(f"- {name}: {reason}\n" for name, reason in reasons.items())


def _totals(cells: Sequence[Cell], *, guarded: bool) -> str:
    tried = [cell.outcome for cell in cells if cell.outcome]
    proved = _counted(tried, lambda o: o.failed)
    alone = _counted(tried, lambda o: o.failed and not o.shown)
    missed = _counted(tried, lambda o: o.missed)
    equal = _counted(tried, lambda o: o.held and o.complete)
    held = _counted(tried, lambda o: o.held and not o.complete)
    refused = _refused(tried) if guarded else NOTHING
    found = f"- found by the proof: {proved}, {alone} of them by it alone; found by the run alone: {missed}"
    in_run = [cell for cell in cells if cell.outcome and cell.outcome.differing]
    in_proof = [cell for cell in cells if cell.outcome and cell.outcome.named and not cell.outcome.differing]
    return f"""{len(tried)} programs that are not the right one:

{refused}{found}
- all claims hold: {equal} shown to be equal, {held} tried on samples
- diagnosed in the run: {_shares(in_run)}
- diagnosed in the proof alone: {_shares(in_proof)}
"""


def _refused(tried: Sequence[Outcome]) -> str:
    build = _counted(tried, lambda o: Guard.BUILD in o.refused)
    start = _counted(tried, lambda o: Guard.START in o.refused)
    rest = [outcome for outcome in tried if not {Guard.BUILD, Guard.START} & set(outcome.refused)]
    by_neither = f"by neither: {len(rest)}, of which the proof finds {_counted(rest, lambda o: o.failed)}"
    return f"- refused by the build: {build}; by the self-test: {start}; {by_neither}\n"


def _counted(outcomes: Iterable[Outcome], condition: Callable[[Outcome], object]) -> int:
    return sum(bool(condition(outcome)) for outcome in outcomes)


def _shares(diagnosed: Sequence[Cell]) -> str:
    """Of all, and of those whose mistake the diagnosis has a name for."""
    counts = Counter(cell.outcome.named for cell in diagnosed if cell.outcome)
    known = sum(bool(BY_NAME[cell.mutant].causes) for cell in diagnosed)
    right = counts[Named.ALONE] + counts[Named.AMONG]
    return (
        f"{len(diagnosed)}, {known} of a cause that has a name; named rightly {right} "
        f"({100 * right / max(known, 1):.1f} %), {counts[Named.ALONE]} of them alone; not named {counts[Named.NOT]}; "
        f"only by wrong names {counts[Named.WRONG]}"
    )


def _summary(cells: Sequence[Cell], *, guarded: bool) -> str:
    refused = ("refused by build", "by self-test") if guarded else ()
    found = ("found by run", "found by proof", "equal", "alone", "among others", "not named")
    rows = (_row(name, own, guarded=guarded) for name, own in _by_mutant(cells))
    return _table(("mutant", "programs", *refused, *found), rows)


def _row(name: str, cells: Sequence[Cell], *, guarded: bool) -> Sequence[str]:
    tried = [cell.outcome for cell in cells if cell.outcome]
    refused: Sequence[Callable[[Outcome], object]] = (
        lambda outcome: Guard.BUILD in outcome.refused,
        lambda outcome: Guard.START in outcome.refused,
    )
    conditions: Sequence[Callable[[Outcome], object]] = (
        *(refused if guarded else ()),
        lambda outcome: outcome.shown,
        lambda outcome: outcome.failed,
        lambda outcome: outcome.held and outcome.complete,
        lambda outcome: outcome.named is Named.ALONE,
        lambda outcome: outcome.named is Named.AMONG,
        lambda outcome: outcome.named in {Named.NOT, Named.WRONG},
    )
    return (name, str(len(tried)), *(str(_counted(tried, condition) or NOTHING) for condition in conditions))


def _details(cells: Sequence[Cell]) -> str:
    networks = networks_of(cells[0].target)
    return _table(("mutant", *networks), ((name, *map(cell_text, own)) for name, own in _by_mutant(cells)))


def _by_mutant(cells: Sequence[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    """In the order of MUTANTS and the target's networks."""
    at = {(cell.mutant, cell.network): cell for cell in cells}
    for mutant in MUTANTS:
        yield mutant.name, [at[mutant.name, network] for network in networks_of(cells[0].target)]


def cell_text(cell: Cell) -> str:
    """What the legend explains."""
    outcome = cell.outcome
    if outcome is None:
        return SENSELESS if BY_NAME[cell.mutant].senseless(cell.target) else SAME
    guards = "".join(guard.value for guard in outcome.refused)
    return f"{guards} {_found(outcome)}".lstrip()


def _found(outcome: Outcome) -> str:
    if outcome.held:
        return EQUAL if outcome.complete else HELD
    steps = " ".join(str(list(ProofStep).index(step)) for step in outcome.failed) or "MISSED"
    return f"{outcome.differing:,} / {steps} / {outcome.named.value if outcome.named else '-'}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
