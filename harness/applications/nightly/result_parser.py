"""The mapping of a finished job's exit code and output to an outcome, without I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.applications.nightly.job_supervisor import TIMED_OUT
from harness.applications.nightly.schedule import Cured
from harness.core.errors import EXIT_DONE, EXIT_INFRASTRUCTURE, EXIT_REQUEST
from harness.core.outcome import PARTS, Ending, Outcome


@dataclass(frozen=True)
class Said:
    """A finished command: its exit code, its standard output, the last lines of its standard error."""

    code: int
    out: str
    last: tuple[str, ...] = ()

    @property
    def document(self) -> Mapping[str, Any] | None:
        """Return the JSON document on standard output; None if the output is not one JSON document."""
        try:
            document = json.loads(self.out)
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    @property
    def words(self) -> str:
        """Return the last lines, joined to one line."""
        return " / ".join(self.last) or "nothing"


def attempt(said: Said, limit: str, *, differs_so_far: bool, resumes: bool = False) -> Ending:
    """Return the result of an attempt that `resumes` a run or starts one; `differs_so_far` is from its chunks.

    An observed wrong activation is never lost, even if the run stops afterwards.
    """
    document = said.document or {}
    ending = _ending(said, document, limit, resumes=resumes)
    if ending.outcome.final:
        return ending
    return with_seen(ending, differed=differs_so_far or document.get("differs_so_far") is True)


def with_seen(ending: Ending, *, differed: bool) -> Ending:
    """Return the result of an entry with a chunk that `differed`; a correct repetition does not change the result."""
    if not differed or ending.outcome is Outcome.DIFFERS:
        return ending
    then = f"the repetition was {ending}" if ending.outcome.final else "then the run stopped"
    return Ending(Outcome.DIFFERS, f"activations differ so far; {then}: {ending.reason}")


def settled(ending: Ending, run: Mapping[str, Any] | None) -> Ending:
    """Return the result of an attempt; `run` is the `run.json` of its folder, None if there is none.

    `run.json` has the verdict of a command that was killed afterwards.  A sound verdict without it is not
    accepted.  The evidence of a valid case is the case itself.
    """
    if run and not ending.outcome.final:
        return finished(run)
    if ending.outcome.sound and ending.outcome is not Outcome.VALID and (run or {}).get("verdict") != ending.outcome:
        return _inconclusive("tool", f"harness reported {ending.outcome}, but its run.json does not")
    return ending


def _ending(said: Said, document: Mapping[str, Any], limit: str, *, resumes: bool) -> Ending:
    if said.code == TIMED_OUT:
        return _inconclusive("board", f"not finished within its limit of {limit}, last output: {said.words}")
    if said.code == EXIT_REQUEST:
        refused = f"{document.get('error', said.words)}; {document.get('hint', '')}".removesuffix("; ")
        what = "the unfinished run cannot be resumed" if resumes else "THE REQUEST IS INVALID, nothing was run"
        return _inconclusive("tool", f"{what}: {refused}")
    verdict = str(document.get("verdict", ""))
    if verdict not in {*Outcome} or said.code != (EXIT_DONE if "accepted" in document else Outcome(verdict).exit_code):
        what = (
            f"reported {verdict} and ended with exit code {said.code}" if verdict else f"ended with {_code(said.code)}"
        )
        return _inconclusive("tool", f"harness {what}, last output: {said.words}")
    return _verdict(document)


def _verdict(document: Mapping[str, Any]) -> Ending:
    """Return the verdict of a run; an inconclusive measurement without a failed part has an inexact counter."""
    outcome, reason = Outcome(document["verdict"]), str(document.get("reason", ""))
    if outcome.final:
        return Ending(outcome, f"{reason}, not MET" if _is_not_met(document) else reason)
    part = str(document.get("part", "board"))
    return _inconclusive(part if part in PARTS else "tool", reason.removeprefix(f"{part}: "))


def _is_not_met(document: Mapping[str, Any]) -> bool:
    """Return whether the numbers of a measurement are times that are not MET."""
    measured = document.get("measured")
    return isinstance(measured, dict) and measured.get("unit") == "ns" and bool(measured.get("not_met_because"))


def busy(said: Said, board: str) -> str:
    """Return the holder of the board if the command could not lock it; empty if it could."""
    document = said.document or {}
    if said.code == EXIT_INFRASTRUCTURE and document.get("in_use") and document.get("differs_so_far") is not True:
        return str(document["in_use"])
    return next((str(one["in_use"]) for one in _boards(said) if one.get("board") == board and one.get("in_use")), "")


def _inconclusive(part: str, reason: str) -> Ending:
    return Ending(Outcome.INCONCLUSIVE, reason, part)


def _code(code: int) -> str:
    """Describe the exit code of a command without a verdict; above 128 it is a signal, as in a shell."""
    if code < 0 or code > 128:
        return f"signal {abs(code) % 128}"
    return f"exit code {code} without a verdict"


def finished(run: Mapping[str, Any]) -> Ending:
    """Return the result of a finished run, from its `run.json`, if its command was killed afterwards."""
    if str(run.get("verdict")) not in {*Outcome}:
        return _inconclusive("tool", f"its run.json has the verdict {run.get('verdict')}")
    return _verdict(run)


def check(said: Said, board: str) -> Cured:
    """Parse the output of `harness boards check BOARD --json`."""
    found = [one for one in _boards(said) if one.get("board") == board]
    if len(found) == 1 and said.code in {EXIT_DONE, EXIT_INFRASTRUCTURE}:
        fit = found[0].get("ok")
        if (fit is True) == (said.code == EXIT_DONE):
            return Cured("" if fit is True else str(found[0].get("reason") or "it failed without a reason"))
    return Cured(f"its health could not be checked: {_why(said)}", hopeless=True)


def _boards(said: Said) -> list[Mapping[str, Any]]:
    boards = (said.document or {}).get("boards")
    return [one for one in boards if isinstance(one, dict)] if isinstance(boards, list) else []


def cycle(said: Said) -> Cured:
    """Parse the output of `harness boards cycle BOARD --json`; a board without a switch is not a failure."""
    if said.code == EXIT_DONE:
        return Cured()
    return Cured("" if said.code == EXIT_REQUEST else f"its power cycle failed: {_why(said)}", hopeless=True)


def _why(said: Said) -> str:
    if said.code == TIMED_OUT:
        return f"not finished in time, last output: {said.words}"
    return str((said.document or {}).get("error") or f"{_code(said.code)}, last output: {said.words}")
