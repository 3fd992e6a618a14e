"""YAML, read safely and strictly: every mistake is an error of the text, with its line."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from harness.errors import RequestError


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML would keep the last, and tells of every value where it is."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:  # such as of the date 2020-13-45
            raise ConstructorError(None, None, "no value of its type", node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if keys.count(key.value) > 1:
                raise ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
        return super().construct_mapping(node, deep)


def load(text: str, path: Path) -> Any:
    """The document that `text`, the content of `path`, holds; RequestError if it is none."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise RequestError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise RequestError(f"{path}: not valid YAML: brackets in brackets without end") from error
