from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import Field, ValidationError

from harness.core.document import BELIEVED, CheckedBy, Document, Entries, Number, claims, json_schema, write_json
from harness.core.errors import RequestError


class Wheel(Entries):
    size: Annotated[Number, CheckedBy("wheels")]
    note: str = ""


class Car(Document):
    number: ClassVar[int | None] = 2

    schema_number: Annotated[int, CheckedBy("form")] = Field(alias="schema")
    name: str
    wheels: Annotated[Sequence[Wheel], CheckedBy(BELIEVED)]
    doors: Annotated[Mapping[str, Wheel], CheckedBy("doors", (("left", "left door"),))] = Field(default_factory=dict)

    @classmethod
    def converted(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**content, "schema": 2, "wheels": [{"size": size} for size in content["sizes"]], "sizes": None}


CONTENT = {"schema": 2, "name": "a", "wheels": [{"size": 1}, {"size": 1.0, "note": "spare"}]}


def kept(folder: Path, content: Any) -> Path:
    (folder / "car.json").write_text(json.dumps(content))
    return folder / "car.json"


def test_a_document_is_written_as_it_was_read(tmp_path: Path) -> None:
    path = kept(tmp_path, CONTENT)
    found = Car.read(path)
    assert (found.name, found.wheels[1].note, found.doors) == ("a", "spare", {})
    write_json(path, found)
    assert path.read_text() == json.dumps(CONTENT, indent=1) + "\n"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": 7}, r"car\.json: cannot be read: name: Input should be a valid string"),
        ({"wheels": [{"size": 1}, {"size": "1", "note": ""}]}, r"wheels\.1\.size"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"schema": 3}, "its schema is 3, this version reads 2: use the one that wrote it$"),
        ({"schema": 3, "harness": {"version": "9", "revision": "abc"}}, r"that wrote it, harness 9 \(abc\)$"),
    ],
)
def test_an_error_names_file_entry_and_reason(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        Car.read(kept(tmp_path, CONTENT | changes))


def test_a_view_has_what_the_document_has() -> None:
    found = Car.view({"schema": 2, "wheels": [{"size": 1}], "doors": {"left": {"size": 3}}, "colour": "red"})
    assert (found.wheels[0].size, found.doors["left"].note) == (1, "")
    with pytest.raises(AttributeError, match="name"):
        _ = found.name
    assert Car.view(found) is found


def test_a_document_of_an_earlier_schema_is_converted() -> None:
    assert [wheel.size for wheel in Car.view({"schema": 1, "name": "a", "sizes": [4, 5]}).wheels] == [4, 5]


def test_what_is_written_is_checked_first() -> None:
    with pytest.raises(ValidationError, match="size"):
        Wheel(size="large")  # type: ignore[arg-type]


def test_the_claim_of_an_entry_is_its_annotation() -> None:
    assert claims(Car) == {
        "schema": "form", "wheels.": BELIEVED, "wheels.size": "wheels", "doors.": "doors", "doors.left": "left door",
        "doors.size": "wheels",
    }  # fmt: skip


def test_the_schema_says_which_entries_there_are() -> None:
    found = json.loads(json_schema(Car))
    assert (found["required"], found["additionalProperties"]) == (["schema", "name", "wheels"], False)
