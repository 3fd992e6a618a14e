"""What a board is asked for unless the options say otherwise, and what it cannot be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from harness.boards.profile import BoardProfiles, Profile
from harness.core.errors import RequestError
from harness.runs.measurement.request import (
    EMULATED_SAMPLES,
    MOST_VECTORS,
    SAMPLES,
    MeasurementOptions,
    Quantity,
    options_for,
)

NOTHING: dict[str, Any] = {
    "samples": None, "scope": None, "count": None, "load": "idle", "warmup": None, "duration_s": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def emulated(laboratory: BoardProfiles) -> Profile:
    return laboratory.board("xavier")


def test_a_real_board_is_asked_for_times_of_the_whole_network(host: Profile) -> None:
    warmup = host.timing.warmup
    assert options_for(host, **NOTHING) == MeasurementOptions(SAMPLES, "network", Quantity.TIME, "idle", warmup, None)


def test_an_emulated_board_is_asked_for_instructions_of_every_layer(emulated: Profile) -> None:
    options = options_for(emulated, **NOTHING)
    assert (options.samples, options.scope, options.quantity) == (EMULATED_SAMPLES, "layer", Quantity.INSTRUCTIONS)


def test_what_the_options_say_is_kept(host: Profile) -> None:
    choices = {"samples": 7, "scope": "item", "count": "cycles", "load": "io", "warmup": 0, "duration_s": 2.5}
    assert options_for(host, **choices) == MeasurementOptions(7, "item", Quantity.CYCLES, "io", 0, 2.5)  # type: ignore[arg-type]


def test_counts_are_of_layers_unless_told(host: Profile) -> None:
    assert options_for(host, **NOTHING | {"count": "instructions"}).scope == "layer"


@pytest.mark.parametrize("count", ["time", "cycles"])
def test_an_emulated_board_has_no_times(emulated: Profile, count: str) -> None:
    with pytest.raises(RequestError, match=f"emulated: its {count} would not be that of the board") as caught:
        options_for(emulated, **NOTHING | {"count": count})
    assert "HARNESS_XAVIER_HOST" in caught.value.hint


def test_an_emulated_board_has_no_load(emulated: Profile) -> None:
    with pytest.raises(RequestError, match="--load memory: board xavier is emulated"):
        options_for(emulated, **NOTHING | {"load": "memory"})


def test_units() -> None:
    counted = {quantity: quantity.unit for quantity in Quantity if quantity.unit != "ns"}
    assert counted == {Quantity.INSTRUCTIONS: "instructions", Quantity.CYCLES: "cycles"}


def test_what_is_counted_is_counted_twice(host: Profile) -> None:
    counted = options_for(host, **NOTHING | {"count": "instructions", "samples": 7})
    assert counted.vectors == 4
    assert options_for(host, **NOTHING | {"samples": 7}).vectors == 7
    assert options_for(host, **NOTHING).vectors == MOST_VECTORS
