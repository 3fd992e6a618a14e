"""A run as an in-toto Statement v1, https://github.com/in-toto/attestation: what run.json is, and what it says.

The subject is run.json, whose `files` have the SHA-256 of all others.  Nothing in it depends on when it is signed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from harness.core.safe_io import parse_json

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:harness:run:v2"
BOARD = ("name", "soc", "kind", "address", "host_key", "machine_id", "boot_id")


def statement(run_json: bytes) -> bytes:
    """The statement of the run whose run.json has these bytes, as canonical JSON; KeyError if they are of no run."""
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": "run.json", "digest": {"sha256": hashlib.sha256(run_json).hexdigest()}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": _predicate(parse_json(run_json)),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _predicate(run: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody who has only the envelope wants to know."""
    return {
        "kind": run.get("kind", "run"),
        "verdict": run["verdict"],
        "reason": run["reason"],
        "finished": run["finished"],
        "contentSha256": run.get("content_sha256"),
        "board": {key: run["board"][key] for key in BOARD},
        "ranOn": {item["name"]: {"target": item["target"], "on": item["ran_on"]} for item in run["plan"]["items"]},
        "model": {key: run["model"][key] for key in ("name", "sha256")},
        "bundle": {key: run["bundle"][key] for key in ("sha256", "compiler")},
        "stimuli": {key: run["stimuli"][key] for key in ("count", "source", "sha256")},
        "harness": run["harness"],
    }
