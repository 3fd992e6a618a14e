"""A measurement's document is believed only as far as it does not contradict itself."""

from __future__ import annotations

from typing import Any

import pytest

from harness.runs.entries import MeasurementDocument
from harness.runs.measurement.facts import gather

view = MeasurementDocument.view


@pytest.mark.slow
def test_sound_times_are_met(sound: dict[str, Any]) -> None:
    facts = gather(view(sound))
    assert (facts.is_met, facts.counted, facts.emulated, facts.stand_ins) == (True, False, False, ())
    assert facts.where == "on hardware"
    assert facts.cautions == ()


def test_counts_of_an_emulated_board_are_not(counted: dict[str, Any]) -> None:
    facts = gather(view(counted))
    assert (facts.is_met, facts.counted, facts.emulated) == (False, True, True)
    assert facts.where == "on an emulated board"
    assert [item.name for item in facts.stand_ins] == ["prepost"]


@pytest.mark.parametrize("verdict", ["regressed", "differs", "varies", "inconclusive", "identical"])
def test_times_without_a_flaw_are_measured_and_nothing_else(sound: dict[str, Any], verdict: str) -> None:
    with pytest.raises(ValueError, match=f"the verdict is {verdict}, but its parts give measured"):
        gather(view(sound | {"verdict": verdict}))


@pytest.mark.slow
def test_a_regression_is_not_shown_as_measured(slower: dict[str, Any]) -> None:
    assert gather(view(slower)).is_met
    with pytest.raises(ValueError, match="the verdict is measured, but its parts give regressed"):
        gather(view(slower | {"verdict": "measured"}))
    slower["against"]["regressed"] = False
    with pytest.raises(ValueError, match="regressed is False, but 1 parts are slower"):
        gather(view(slower | {"verdict": "measured"}))


@pytest.mark.slow
def test_a_base_that_is_too_noisy_is_not_shown_as_measured(noisy: dict[str, Any]) -> None:
    assert gather(view(noisy)).is_met
    with pytest.raises(ValueError, match="the verdict is measured, but its parts give inconclusive"):
        gather(view(noisy | {"verdict": "measured"}))


def test_wrong_outputs_come_before_everything(slower: dict[str, Any]) -> None:
    slower["outputs"]["differing"] = 3
    with pytest.raises(ValueError, match="the verdict is regressed, but its parts give differs"):
        gather(view(slower))
    assert gather(view(slower | {"verdict": "differs"})).why_not_met == "3 outputs are not the reference's"


def test_varying_counts_are_not_shown_as_equal(varying: dict[str, Any]) -> None:
    gather(view(varying))
    with pytest.raises(ValueError, match="the verdict is measured, but its parts give varies"):
        gather(view(varying | {"verdict": "measured"}))
    varying["parts"][1]["distinct"] = 1
    with pytest.raises(ValueError, match="dense_1 has 1 counts from 2010 to 2013"):
        gather(view(varying | {"verdict": "measured"}))


def test_a_counter_that_is_not_exact_says_nothing_of_the_code(varying: dict[str, Any]) -> None:
    varying["parts"][1]["repeatable"] = False
    with pytest.raises(ValueError, match="the verdict is varies, but its parts give inconclusive"):
        gather(view(varying))


def test_instructions_while_waiting_for_a_device_and_cycles_may_vary(varying: dict[str, Any]) -> None:
    varying["verdict"] = "measured"
    waiting = {**varying, "parts": [part | {"alone": False} for part in varying["parts"]]}
    assert gather(view(waiting)).counted
    varying["measured"]["unit"] = "cycles"
    assert gather(view(varying)).counted


def test_an_emulated_board_or_a_stand_in_has_no_met(sound: dict[str, Any]) -> None:
    sound["plan"]["items"][0]["ran_on"] = "host-simulation of CUDA"
    with pytest.raises(ValueError, match="the document claims MET"):
        gather(view(sound))
    sound["plan"]["items"][0]["ran_on"] = "hardware"
    sound["board"]["kind"] = "emulated"
    with pytest.raises(ValueError, match="the document claims MET"):
        gather(view(sound))


def test_every_part_has_all_executions(sound: dict[str, Any], counted: dict[str, Any]) -> None:
    counted["parts"][2]["executions"] -= 1
    with pytest.raises(ValueError, match=r"dense_2 has \[1999\] executions, not 2000"):
        gather(view(counted))
    sound["parts"][0]["histogram"]["counts"][3] += 1
    with pytest.raises(ValueError, match=r"acas_coc has \[4000, 4001\] executions, not 4000"):
        gather(view(sound))


def test_nothing_compared_is_no_measurement(sound: dict[str, Any]) -> None:
    sound["outputs"]["compared"] = 0
    with pytest.raises(ValueError, match="no output was compared"):
        gather(view(sound))


def test_everything_that_takes_away_is_said(sound: dict[str, Any]) -> None:
    sound["load"]["failure"] = "stress-ng was killed"
    sound["state"] |= {
        "throttled": ["cpu0 grew by 3"],
        "drifted": ["governor: it was performance and is powersave now"],
        "told": ["turbo: the board has no such file"],
        "unseen": ["the board shows no temperatures"],
    }
    sound["board"]["environment"]["virtual_machine"] = "kvm"
    sound["measured"] |= {
        "fifo": None,
        "fifo_refused": "not permitted",
        "memory_locked": False,
        "dma_latency_held": False,
    }
    sound["clock"]["cost"]["median_ns"] = 25_000.0
    facts = gather(view(sound))
    assert facts.unseen == ("the board shows no temperatures",)
    assert facts.cautions == (
        "the load did not last: stress-ng was killed",
        "throttled: cpu0 grew by 3",
        "a setting did not stay: governor: it was performance and is powersave now",
        "a virtual machine, whose times depend on its host: kvm",
        "SCHED_FIFO was refused, so the default scheduler was used: not permitted",
        "memory was not locked, although the profile asks for it: any time may contain a page fault",
        "the CPU DMA latency was not held, although the profile asks for it: a core may have slept too deeply",
        "setting differs from the profile: turbo: the board has no such file",
        "the clock is coarse here: reading it is 50% of the fastest part's median",
    )


def test_what_was_not_asked_for_is_not_said_to_be_refused(sound: dict[str, Any]) -> None:
    sound["measured"] |= {
        "memory_lock_asked": False, "memory_locked": False, "dma_latency_asked": False, "dma_latency_held": False,
    }  # fmt: skip
    assert gather(view(sound)).cautions == ("memory was not locked: any time may contain a page fault",)
