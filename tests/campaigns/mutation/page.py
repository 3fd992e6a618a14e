"""docs/results/mutation.md: what the campaign found, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analysis.proof import ProofStep
from harness.core.installation import ROOT
from tests.campaigns import dated
from tests.campaigns.mutation import target_cuda, target_tiovx, target_vitis
from tests.campaigns.mutation.campaign import COMPOSED, Guard, Named, Outcome
from tests.campaigns.mutation.mutants import MUTANTS
from tests.campaigns.mutation.networks import NETWORKS, VECTORS, networks_of
from tests.support.markdown import table

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
PAGE = ROOT / "docs" / "results" / "mutation.md"
SAME, SENSELESS, EQUAL, HELD, NOTHING = "=", "-", "equal", "holds", ""

INTRODUCTION = f"""# Which checks find a wrong program

A mutant is a program with one mistake in the kernels, the constants or the schedule. The mutants have every mistake
that is known of quantised networks, and some others. Each was compiled for each of {len(NETWORKS)} small networks (on
fewer for the targets of accelerators), deployed on the board `host`, and tested as [`harness
prove`](../prove-a-model.md) tests a program: with the argument, and with a run of {VECTORS:,} seeded vectors and its
diagnosis. `python -m tests.campaigns.mutation` wrote this page. Programs that are wrong only in some state, in some
mode or on some thread have [their own page](mutation-hidden.md).

- *found by the run*: an activation differs.
- *found by the proof*: a claim does not hold.
- *cause named*: for every layer that is wrong itself, the diagnosis lists the cause among those that explain all
  differences.
- *named alone*: for one of these layers the diagnosis lists no other cause.

If the run finds nothing, the proof diagnoses the end of a QGemm. The diagnosis has no name for some mutants; it must
not give them another name.

Every reachable accumulator and every input pass through a mutant. If all claims hold, the mutant is therefore shown
to be the same function on that network. Limitations:

- Add is tested on samples, so no mutant is shown to be equal on the network of a residual expansion.
- All 2^32 inputs pass only through mutants that change the rounding of inputs. Through the others pass those inputs
  where the quantised value changes.
- Only whole runs show the effects of a schedule other than calls of its stages, such as those of mutants that fuse a
  sum with the operation before it. Under delays these runs have {COMPOSED} vectors here.
"""
LEGEND = f"""Each cell has: activations that differ in the run / steps of the
[argument](../reference/proof.md#the-argument) with a claim that does not hold / whether the cause is named.

- `{EQUAL}`: all claims hold: it is the same function.
- `{HELD}`: all claims hold, some of them on samples.
- `{SAME}`: the compiler makes the same program as without the mutant.

The effect of a deleted barrier on a run depends on which item is faster at that time; the proof delays each item in
turn.
"""
GUARDS = f"""Two guards check a program before any claim about it. The build inspects the PTX and refuses operations
that are unknown or not in the specification. The program refuses to start on a GPU that fails its self-test, which
calls the same functions. Here every mutant was also tested without these guards, to show which check would find it
without them. Before a cell, `{Guard.BUILD.value}` and `{Guard.START.value}` mean that build or self-test had refused
the mutant, and `{Guard.RUN.value}` means that its run ended with an error. `{SAME}` is about the network's own code:
the self-test also has functions that the network does not call.

All kernels ran as host-simulation of CUDA: the source of the kernels, compiled by g++, with the interface of the
driver. A simulated thread runs to its next barrier before another one starts. This shows one possible effect of a
deleted barrier, always the same one. ThreadSanitizer finds the race itself in `tests/simulators/cuda`. The
interpreter in `tests/simulators/ptx` executes the output of NVRTC. Not all 2^32 inputs pass through the mutants that
change only the rounding of inputs: only inputs where the quantised value changes.
"""

DOUBLE = f"""The core computes QuantizeLinear and QGemm. An item of target `c` computes all other layers, and their
mutants are those of target `c`. A core rounds with thresholds and has no floating point: mistakes of floating point
were built into the thresholds. The thresholds themselves are constants, which step 1 of the argument compares. A
mutant with other multipliers but the same thresholds is the same program. Thresholds are made for the accumulators
that right sums can reach. A wrong sum outside this range becomes a value that no formula gives, and the diagnosis
then does not name the cause. Target `tiovx:mpu` has the same kernels, in the program's own process.

All kernels ran as host-simulation of TIOVX: their C source, compiled for this machine, with a simulator of the few
functions of TIOVX that they use, on a thread in place of the DSP. The loop over VDOTP4SUBW, which only the compiler
for the C7x reads, was not tested; the mutants of sums change the loop in C. The build tests all thresholds on every
accumulator that right sums can reach. `{Guard.BUILD.value}` before a cell means that it had refused some thresholds,
which were built in anyway.

The simulator ends a program if a kernel accesses memory that it has not mapped, leaves memory mapped, or makes
another error that can fail on the DSP but not here. `{Guard.RUN.value}` means that the run ended in this way. Then
there are no activations, and none differs; every claim fails whose query to the kernel ends in the same way.
"""
FABRIC = f"""The fabric computes QGemm. An item of target `c` computes all other layers, and their mutants are those
of target `c`; so are the mutants of a float32 output, whose accumulators the processor scales. A circuit rounds with
thresholds and has no floating point: mistakes of floating point were built into the thresholds. The thresholds are
constants, which the kernel reports and step 1 of the argument compares. As on a DSP, a wrong sum outside the range of
right sums becomes a value that no formula gives, and the diagnosis then does not name the cause.

All kernels ran as host-simulation of Vitis HLS: their C++ source, compiled by g++, with a simulator of XRT. The
circuit that Vitis makes of the source was not tested; Vitis must check it with its own simulation and timing
analysis. The program identifies a kernel by the digest of its sources; a mutant reports the digest of the right
kernel. The build tests all thresholds on every accumulator that right sums can reach. `{Guard.BUILD.value}` before a
cell means that it had refused some thresholds, which were built in anyway.

The simulator ends a program that accesses a buffer while a kernel uses it, reads data that was not synchronised, or
makes another error that can fail on the board but not here. It also ends a program that reads too much or too little
from a stream. `{Guard.RUN.value}` means that the run ended in this way. Four kernels compute the network of a
residual expansion; one kernel computes each other network. A run requests records of all activations; the proof also
requests records of the last activation only.
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
    parts = [dated(INTRODUCTION, where)]
    for target in dict.fromkeys(cell.target for cell in cells):
        own = [cell for cell in cells if cell.target == target]
        guarded = target in target_cuda.INJECTIONS
        about = [ABOUT[target]] if target in ABOUT else []
        parts += [f"## Target `{target}`\n", *about, _totals(own, guarded=guarded)]
        parts += [_summary(own, guarded=guarded), LEGEND, _details(own), *_senseless(target)]
    parts += ["## Around the network\n", table(("what is wrong", "verdict"), faults.items())]
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
    return table(("mutant", "programs", *refused, *found), rows)


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
    return table(("mutant", *networks), ((name, *map(cell_text, own)) for name, own in _by_mutant(cells)))


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
