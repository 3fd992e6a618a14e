from __future__ import annotations

import json

from harness.report.schemas import FOLDER, schemas


def test_the_published_schemas_are_those_of_the_models() -> None:
    published = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert published == schemas(), "write them anew: python -m harness.report.schemas"


def test_a_schema_refuses_unknown_entries_and_requires_the_others() -> None:
    run = json.loads(schemas()["run.schema.json"])
    assert run["additionalProperties"] is False
    assert {"schema", "verdict", "reason", "layers", "board"} <= set(run["required"])
    assert not {"files", "content_sha256"} & set(run["required"]), "they are added when the run is finished"
