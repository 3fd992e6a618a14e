"""Networks that have together every operator, in many forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.model.network import Network
from tests.support import codes, float_images, float_terms, functions, images

NETWORKS: Mapping[str, Callable[[], Network]] = {
    "codes uint8": lambda: codes.every_operator("uint8", 23),
    "codes int8": lambda: codes.every_operator("int8", 23),
    "images uint8": lambda: images.every_operator("uint8"),
    "images int8": lambda: images.every_operator("int8"),
    "float images": float_images.every_operator,
    "functions": functions.every_function,
    "terms": float_terms.every_operator,
}
