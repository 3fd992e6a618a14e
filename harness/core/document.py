"""Documents: models of the JSON files that commands write, with one writer, one reader and one JSON Schema."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, is_dataclass
from functools import cache, reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, ClassVar, Literal, Self, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model

from harness.core import strict_json
from harness.core.errors import RequestError
from harness.core.safe_io import read_document

BELIEVED = "believed"

Content: TypeAlias = "Mapping[str, Any] | Entries"
"""The JSON object of a document, or its model."""
Number: TypeAlias = int | float
"""A number of JSON; an integer stays an integer, because 1 and 1.0 are different bytes."""
SpelledNumber: TypeAlias = Annotated[Number, BeforeValidator(strict_json.number, json_schema_input_type=Number | str)]
"""A number, also read from the string that `strict_json.spelled` made of it."""


@dataclass(frozen=True)
class CheckedBy:
    """The annotation of an entry: the claim of `harness verify` that checks it and all entries below it.

    BELIEVED is for an entry that is taken on trust.  A nested annotation takes precedence.  `keys` are the claims for
    single keys of a mapping.
    """

    claim: str
    keys: tuple[tuple[str, str], ...] = ()


UNCHECKED = CheckedBy(BELIEVED)
"""The annotation of an entry that is taken on trust."""


class Entries(BaseModel):
    """A JSON object: its entries in the order in which they are written; no others are valid."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, defer_build=True)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the object that JSON types represent; ValidationError, a ValueError, if they do not fit."""
        return cls.model_validate_json(json.dumps(content))

    @classmethod
    def view(cls, content: Any) -> Self:
        """Return the object with the entries that are present, for readers of documents of earlier versions.

        A missing entry has its default; without a default, reading it raises AttributeError.  Entries that the model
        does not have are omitted.  ValueError if a value does not fit.  A value that is not a JSON object is returned
        unchanged.
        """
        if not isinstance(content, Mapping):
            unchanged: Self = content
            return unchanged
        partial: type[Self] = _partial(cls)
        try:
            return partial.from_json(content)
        except ValidationError as error:
            raise ValueError(first_error(error, cls.__name__)) from error

    def to_json(self) -> dict[str, Any]:
        """Return the entries as JSON types; entries that were not set are omitted."""
        return self.model_dump(by_alias=True, exclude_unset=True, warnings=False)  # a view contains anything


class Document(Entries):
    """A JSON file; `number` is its `schema` number, None if it has no such entry because its form never changed."""

    number: ClassVar[int | None] = None

    @classmethod
    def converted(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a document of an earlier version to the form of `number`."""
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the document; ValidationError as of `Entries.from_json`, ValueError if a later version wrote it."""
        number, author = content.get("schema"), content.get("harness")
        if cls.number is None or not isinstance(number, int) or number == cls.number:
            return super().from_json(content)
        if number > cls.number:
            wrote = f", harness {author.get('version')} ({author.get('revision')})" if isinstance(author, dict) else ""
            raise ValueError(
                f"its schema is {number}, this version reads {cls.number}: use the one that wrote it{wrote}"
            )
        return super().from_json(cls.converted(content))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the document in a file; RequestError names file, entry and reason if it is not such a document."""
        try:
            return cls.from_json(read_document(path))
        except ValidationError as error:
            reason = first_error(error, path.name)
        except (OSError, ValueError) as error:
            reason = str(error)
        hint = "copy the file again from its source, or repeat the command that wrote it"
        raise RequestError(f"{path}: cannot be read: {reason}", hint)


def first_error(error: ValidationError, name: str) -> str:
    """Return the first error as one line: the entry, or `name` for the whole document, and the reason."""
    wrong = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, wrong['loc'])) or name}: {wrong['msg']}"


def write_json(path: Path, document: Content) -> None:
    """Write `document` atomically: after a power cut, `path` contains all of it or is unchanged."""
    content = document.to_json() if isinstance(document, Entries) else document
    with durable(path) as file:
        file.write(f"{strict_json.text(content)}\n".encode())


@contextmanager
def durable(path: Path) -> Iterator[BinaryIO]:
    """Provide a file that replaces `path` once it is completely on disk; if the block fails, `path` is unchanged."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):  # the same disk error has been raised already
            part.unlink(missing_ok=True)
        raise


def json_schema(model: type[Document]) -> str:
    """Return the JSON Schema of a document as the text of a file, without descriptions (the docstrings)."""
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | model.model_json_schema()
    for each in (found, *found.get("$defs", {}).values()):
        each.pop("description", None)
    return f"{json.dumps(found, indent=1)}\n"


def claims(model: type[Entries], at: str = "") -> dict[str, str]:
    """Return the claim of each annotated entry by its path; a path that ends with a dot covers all below it."""
    found = {}
    for name, field in model.model_fields.items():
        path, inner = f"{at}{field.alias or name}", _model_in(field.annotation)
        below = claims(inner, f"{path}.") if inner else {}
        for checked in (one for one in field.metadata if isinstance(one, CheckedBy)):
            named = {key.removeprefix(f"{path}.").partition(".")[0] for key in below}
            is_open = len(named) < len(inner.model_fields) if inner else _is_container(field.annotation)
            found[f"{path}." if is_open else path] = checked.claim
            found |= {f"{path}.{key}": claim for key, claim in checked.keys}
        found |= below
    return found


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def _is_container(annotation: Any) -> bool:
    """Return whether a value of this type can contain others."""
    return any(
        is_dataclass(alternative) or get_origin(alternative) not in {None, Literal}
        for alternative in _alternatives(annotation)
    )


def _model_in(annotation: Any) -> type[Entries] | None:
    """Return the model of the objects that a value of this type contains, at any depth; None if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, Entries):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


class _Partial(Entries):
    """The base of models without required entries."""

    model_config = ConfigDict(extra="ignore")

    required: ClassVar[frozenset[str]]

    def model_post_init(self, _context: Any) -> None:
        """Delete the values of missing entries, so that reading one raises AttributeError."""
        for name in self.required - self.model_fields_set:
            del self.__dict__[name]


@cache
def _partial(model: type[Entries]) -> Any:
    """Return a subclass of the model, and of the models within it, whose entries may be missing."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        optional = copy(field)
        if field.is_required():
            optional.default = None
        fields[name] = (_with_partial_models(field.annotation), optional)
    found: Any = create_model(model.__name__, __base__=(model, _Partial), **fields)
    found.required = frozenset(name for name, field in model.model_fields.items() if field.is_required())
    return found


def _with_partial_models(annotation: Any) -> Any:
    """Return the annotation with partial models in place of the models in it."""
    if _model_in(annotation) is None:
        return annotation
    if isinstance(annotation, type) and issubclass(annotation, Entries):
        return _partial(annotation)
    parts = tuple(map(_with_partial_models, get_args(annotation)))
    return reduce(or_, parts) if get_origin(annotation) is UnionType else get_origin(annotation)[parts]
