"""A claim of a run's evidence, and the result of its check."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import TemplateError

from harness.core.arrays import Array
from harness.core.console import ProgressBar
from harness.core.document import Entries
from harness.core.errors import BoardError, HarnessError, RequestError
from harness.core.safe_io import load_array
from harness.core.strict_json import spelled

FORMER_WORDS = {
    r"whichever of ([0-9,]+ vectors)": r"for all \1",
    "^the vectors met float32 values, which are not counted": "coverage: not counted, because no layer has codes",
    "^the vectors met ": "coverage: ",
    "ties behind the input": "ties behind the first layer",
    "^from the begin of": "from the start of",
    "without what items wait for each other": "without the times at which items wait for each other",
    "whose times are those of two schedulers": "whose times depend on its host",
}
"""Patterns of texts in documents of earlier revisions, and the words of this one."""
ALMOST_NOTHING = 1e-12  # of a fraction that should be 0

Progress: TypeAlias = Callable[[str, int], AbstractContextManager[ProgressBar]]
"""Opens a progress bar: what is done, how many steps it takes."""

# Exceptions of an invalid document; a run folder may come from an untrusted source.
MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError, TypeError, ValueError),
    TemplateError,  # a page that lacks an entry
)


class ClaimState(StrEnum):
    """State of a claim."""

    OK = "ok"
    WRONG = "not ok"
    UNCHECKED = "not checked"


@dataclass(frozen=True)
class Claim:
    """One claim; `text` is the finding, the contradiction, or the reason why it was not checked.

    Evidence is valid only if all `needed` claims were checked; other claims may be unchecked.
    """

    name: str
    state: ClaimState
    text: str
    needed: bool = True


class ContradictionError(Exception):
    """Error for evidence that contradicts itself."""


class UncheckedError(Exception):
    """Error for a claim that cannot be checked here."""


def claim(name: str, check: Callable[[], str], *, needed: bool = True) -> Claim:
    """Return the claim that a check confirms, contradicts or leaves open: it returns evidence or raises an error."""
    try:
        return Claim(name, ClaimState.OK, check(), needed)
    except (ContradictionError, RequestError, BoardError) as error:
        return Claim(name, ClaimState.WRONG, str(error), needed)
    except (UncheckedError, HarnessError) as error:
        return Claim(name, ClaimState.UNCHECKED, str(error), needed)
    except MALFORMED as error:
        reason = f"damaged, or written by another version of harness: {type(error).__name__}: {error}"
        return Claim(
            name, ClaimState.UNCHECKED, reason
        )  # needed, because otherwise a malformed document could prevent the check


def is_valid(claims: Sequence[Claim]) -> bool | None:
    """Return whether the evidence is confirmed; None if that could not be determined."""
    if any(each.state is ClaimState.WRONG for each in claims):
        return False
    return None if any(each.needed and each.state is ClaimState.UNCHECKED for each in claims) else True


def reworded(value: Any) -> Any:
    """Return a text of an earlier revision in the words of this one, and other values unchanged."""
    for former, current in FORMER_WORDS.items() if isinstance(value, str) else ():
        value = re.sub(former, current, value)
    return value


def array_of(path: Path) -> Array:
    """Return the array of a .npy file; ContradictionError if it is none, or if other bytes are in the file."""
    try:
        return load_array(path)
    except ValueError as error:
        raise ContradictionError(f"{path.name}: {error}") from error


def require_equal(what: str, recorded: Any, found: Any, *, close: float = 0.0) -> None:
    """Raise ContradictionError with the first entry that differs, unless both are equal as JSON.

    Fractions may differ by this relative amount, because processors round logarithms differently.
    """
    different = first_difference(_as_json(recorded), _as_json(found), close=close)
    if different:
        raise ContradictionError(f"{what} says {different}")


def _as_json(value: Any) -> Any:
    """Return a value as JSON gives it back."""
    if isinstance(value, Entries):
        value = value.to_json()
    if isinstance(value, Mapping):
        return {str(key): _as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(entry) for entry in value]
    return json.loads(json.dumps(spelled(value)))


def first_difference(recorded: Any, found: Any, at: str = "", *, close: float = 0.0) -> str:
    """Describe the first difference of two JSON values; empty if they are equal."""
    if isinstance(recorded, Mapping) and isinstance(found, Mapping):
        pairs = (
            (f"{at}.{key}" if at else str(key), recorded.get(key), found.get(key)) for key in {**found, **recorded}
        )
    elif isinstance(recorded, list) and isinstance(found, list):
        pairs = ((f"{at}[{index}]", *pair) for index, pair in enumerate(zip_longest(recorded, found)))
    else:
        same = json.dumps(recorded) == json.dumps(found)  # by their texts: 1 is not 1.0, and NaN is NaN
        if same or (close and _are_close(recorded, found, close)):
            return ""
        return f"{at} is {shortened(recorded)}, recomputed as {shortened(found)}"
    differences = (first_difference(one, other, where, close=close) for where, one, other in pairs)
    return next(filter(None, differences), "")


def _are_close(recorded: Any, found: Any, close: float) -> bool:
    fractions = isinstance(recorded, float) and isinstance(found, float)
    return fractions and math.isclose(recorded, found, rel_tol=close, abs_tol=ALMOST_NOTHING)


def shortened(value: Any) -> str:
    """Return a value for a line of text."""
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def listed(names: Iterable[str]) -> str:
    """Return the first names, and how many others there are."""
    shown = sorted(names)
    more = f" and {len(shown) - 3:,} more" if len(shown) > 3 else ""
    return f"{', '.join(shown[:3])}{more}"
