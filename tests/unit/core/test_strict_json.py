from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core import strict_json
from harness.core.safe_io import parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=9,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), VALUES))
def test_whatever_a_document_has_is_json(document: dict[str, Any]) -> None:
    assert parse_json(strict_json.text(document)) == strict_json.spelled(document)


@pytest.mark.parametrize(
    ("value", "name"),
    [(math.nan, "NaN"), (-math.nan, "NaN"), (math.inf, "Infinity"), (np.float64("-inf"), "-Infinity"), (0.5, 0.5)],
)
def test_a_number_that_json_has_not_has_a_name_and_comes_back(value: float, name: object) -> None:
    assert strict_json.spelled({"a": (1, [value])}) == {"a": [1, [name]]}
    assert repr(strict_json.number(strict_json.spelled(float(value)))) == repr(float(value)).replace("-nan", "nan")


def test_what_is_no_value_of_json_is_refused() -> None:
    with pytest.raises(TypeError):
        strict_json.text({"a": np.int64(3)})
