"""`--buffers reuse` from the command line to the evidence: what is compared, what is said of the rest, forgeries."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.integration.cli.test_run import RUN, half_away, user
from tests.support.cli.command import User

__all__ = ["half_away", "user"]  # fixtures

REUSE = ("--buffers", "reuse")
ACAS = ("--board", "host", "--model", "acas_coc", *REUSE)


def test_what_was_not_compared_is_named_everywhere(user: User) -> None:
    ended = user.harness("run", *ACAS, "--vectors", "2000", "--json")
    assert ended.code == 0, ended.err
    document, folder = ended.document, Path(ended.document["run"])
    lost = [layer["name"] for layer in document["layers"] if not layer.get("kept", True)]
    assert "quantize_input" in lost
    assert "select_advisory" not in lost
    assert [layer["name"] for layer in document["layers"] if not layer["compared"]] == lost
    kept = len(document["layers"]) - len(lost)
    assert document["reason"].startswith(
        f"all {sum(layer['compared'] for layer in document['layers']):,} activations of "
    )
    assert (
        f"{kept} of 11 layers over 2,000 vectors are bit for bit those of the reference; those of "
        in document["reason"]
    )
    assert document["reason"].endswith("run without --buffers reuse to compare every layer")
    dumped = {path.stem[3:] for side in ("reference", "target") for path in (folder / side / "00000").iterdir()}
    assert dumped.isdisjoint(lost)
    assert len(dumped) == kept
    report = (folder / "report.html").read_text()
    assert f"the activations of {len(lost)} of 11 layers were overwritten on the board and not compared" in report
    assert report.count("not compared, as its buffer is reused") == len(lost)
    assert (folder / "junit.xml").read_text().count("<skipped") == len(lost)
    checked = user.harness("verify", str(folder), "--no-rebuild")
    assert "not ok" not in checked.out, checked.out


@pytest.mark.usefixtures("half_away")
def test_a_wrong_kernel_is_found_without_a_diagnosis(user: User) -> None:
    """The sources of a wrong layer may be overwritten, so that nothing is said of the layer itself."""
    document = user.here(*RUN, *REUSE, "--vectors", "20000").document
    assert document["verdict"] == "differs"
    assert document["layers"][-1]["differing"] > 0
    assert document["diagnoses"] == []
    assert {layer["own"] for layer in document["layers"]} == {0}
    assert document["failing"]["layer"] == next(each["name"] for each in document["layers"] if each["differing"])
    assert np.load(Path(document["run"]) / document["failing"]["file"]).shape == (1, 5)


def test_a_plan_keeps_its_offsets_and_wrong_ones_are_refused(user: User) -> None:
    folder = user.folder / "plan"
    made = user.harness("plan", *ACAS, "-o", str(folder), "--json").document
    assert made["memory"]["buffers"] < made["memory"]["own"] * made["block"]
    settings = yaml.safe_load((folder / "plan.yaml").read_text())
    assert {task["name"]: task["offset"] for task in made["tasks"]} == {
        name: offset * made["block"] for name, offset in settings["arena"].items()
    }
    again = user.harness("plan", "--load", str(folder), "--json").document
    assert again["tasks"] == made["tasks"]
    settings["arena"]["dense_2"] = settings["arena"]["dense_1"]
    (folder / "plan.yaml").write_text(yaml.safe_dump(settings))
    refused = user.harness("run", "--plan", str(folder))
    assert refused.code == 2
    assert "plan.yaml: arena: dense_1 and dense_2 share bytes" in refused.err


@pytest.mark.parametrize("forged", ["an arena that the program had not", "a layer that was compared, and is not shown"])
def test_layers_that_are_left_out_later_are_found(user: User, forged: str) -> None:
    """Wrong activations cannot be hidden as overwritten ones."""
    command = ("run", "--board", "host", "--model", "acas_coc", "--vectors", "500", "--json")
    kept, reused = (Path(user.harness(*command, *more).document["run"]) for more in ((), REUSE))
    if forged.startswith("an arena"):
        shutil.copy(reused / "plan" / "plan.yaml", kept / "plan" / "plan.yaml")
    else:
        shutil.copytree(reused / "plan", kept / "plan", dirs_exist_ok=True)
        (kept / "target" / "00000" / "00_quantize_input.npy").unlink()
    ended = user.harness("verify", str(kept), "--no-rebuild")
    assert ended.code == 1
    assert "the evidence is NOT valid" in ended.out


def test_a_measured_program_has_an_arena(user: User) -> None:
    ended = user.harness("measure", *ACAS, "--samples", "200", "--json")
    assert ended.code == 0, ended.err
    run = json.loads((Path(ended.document["run"]) / "run.json").read_text())
    assert run["plan"]["arena"] > 0
    assert run["outputs"]["differing"] == 0
    assert run["memory"]["shared"] < run["memory"]["own"]
    page = (Path(ended.document["run"]) / "report.html").read_text()
    assert f"of which {run['plan']['arena']:,} are an arena whose bytes are reused" in page
    assert f"The buffers of one vector take {run['memory']['own']:,} bytes" in page
