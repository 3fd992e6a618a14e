"""Forgeries of a proof: it claims more than was asked or answered."""

from __future__ import annotations

import json
from typing import Any

from tests.campaigns.forgeries.bases import Bases
from tests.campaigns.forgeries.forger import (
    PROOF,
    Change,
    Document,
    Edit,
    all_of,
    conclude,
    copy_dumps,
    hide_difference,
    in_file,
    in_request,
    in_run,
)
from tests.campaigns.forgeries.forgery import Using, files_of, forgeries, right_revision


def in_proof(how: Edit) -> Change:
    """Return a change of the proof; verdict and reason follow."""
    return all_of(in_file(PROOF, how), conclude)


def in_claim(index: int, **changes: Any) -> Change:
    """Return a change of one claim."""
    return in_proof(lambda document: document["claims"][index].update(changes))


def let_hold(document: Document) -> None:
    """Let every claim hold."""
    document["holds"] = True
    for claim in document["claims"]:
        claim.update(holds=True, counterexample=None)


def first_failure_holds(document: Document) -> None:
    """Let the first claim hold that does not."""
    next(claim for claim in document["claims"] if not claim["holds"]).update(holds=True)


def other_file(document: Document) -> None:
    """Say that the claims about the program's file are of another file."""
    for claim in document["claims"]:
        if claim["answered_by"] == "program file":
            claim["answers_sha256"] = "0" * 64


def right_answers(bases: Bases) -> Change:
    """Return a change that takes the hashes of the right answers and the reference's dumps."""
    right = json.loads((bases.proof / PROOF).read_text(encoding="utf-8"))["claims"]

    def change(document: Document) -> None:
        let_hold(document)
        for claim, other in zip(document["claims"], right, strict=True):
            claim["answers_sha256"] = other["answers_sha256"]

    hidden = all_of(copy_dumps("reference", "target"), in_file(PROOF, change), hide_difference)
    return right_revision(hidden).make(bases)


def without_environment(document: Document) -> None:
    """Leave out what one item said of its floating-point environment."""
    document["fp_environment"] = [each for each in document["fp_environment"] if each["item"] != "network"]


def swap_answers(document: Document) -> None:
    """Exchange the answers of two claims."""
    answered = [claim for claim in document["claims"] if claim["answers_sha256"]]
    one, other = answered[0], next(c for c in answered if c["answers_sha256"] != answered[0]["answers_sha256"])
    one["answers_sha256"], other["answers_sha256"] = other["answers_sha256"], one["answers_sha256"]


def all_floats(document: Document) -> None:
    """Say that all floats were sent through the program, not only those next to thresholds."""
    for claim in document["claims"]:
        if claim["layer"] == "quantize" and claim["answered_by"] == "program":
            claim["cases"] = 1 << 32


other_seed = all_of(in_request(seed=2), in_run(lambda run: run["stimuli"].update(seed=2, source="seed 2")))

FORGERIES = forgeries(
    "proof",
    {
        "a claim is removed": ("proof", in_proof(lambda d: d["claims"].pop(3))),
        "the claims of a layer are removed": (
            "proof",
            in_proof(lambda d: d.update(claims=[claim for claim in d["claims"] if claim["layer"] != "layer_1"])),
        ),
        "a claim is there twice": ("proof", in_proof(lambda d: d["claims"].append(d["claims"][3]))),
        "more cases": ("proof", in_claim(3, cases=10**12)),
        "samples are called complete": ("proof", in_claim(-1, complete=True)),
        "another method": ("proof", in_claim(2, method="by all inputs")),
        "another statement": ("proof", in_claim(2, statement="the program is right")),
        "an assumption is removed": ("proof", in_proof(lambda d: d["assumptions"].pop())),
        "the floating-point environment is removed": ("proof", in_proof(lambda d: d.update(fp_environment=[]))),
        "the floating-point environment of an item is removed": ("proof", in_proof(without_environment)),
        "the answers of another claim": ("proof", in_proof(swap_answers)),
        "the claims about another program's file": ("proof", in_proof(other_file)),
        "the claims about the program's file are removed": (
            "proof",
            in_proof(lambda d: d.update(claims=[c for c in d["claims"] if c["answered_by"] != "program file"])),
        ),
        "the claim of ThreadSanitizer is removed": (
            "proof",
            in_proof(lambda d: d.update(claims=[c for c in d["claims"] if "Sanitizer" not in c["answered_by"]])),
        ),
        "no answers": ("proof", in_proof(lambda d: [c.update(answers_sha256=None) for c in d["claims"]])),
        "all floats are claimed, thresholds were sent": ("proof", in_proof(all_floats)),
        "the same, and all floats were asked for": ("proof", all_of(in_request(floats="all"), in_proof(all_floats))),
        "answers to another seed": ("proof", other_seed),
        "an entry that nobody knows": ("proof", in_proof(lambda d: d.update(approved=True))),
        "a claim fails with a counterexample, and holds": ("refuted", in_proof(first_failure_holds)),
        "all claims hold, without counterexamples": ("refuted", in_proof(let_hold)),
        "the same, with the right answers and dumps; the revision is a right one": ("refuted", Using(right_answers)),
        "the proof of another program": ("refuted", files_of("proof", PROOF, then=conclude)),
        "a proof in a run that was none": ("run", files_of("proof", PROOF, then=conclude)),
    },
)
