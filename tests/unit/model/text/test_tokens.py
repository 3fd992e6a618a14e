from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.model.text.tokens import Cursor, float_word, quoted


@given(st.integers(0, (1 << 32) - 1))
def test_a_float_comes_back_with_its_bits(bits: int) -> None:
    value = np.uint32(bits).view(np.float32)
    word = float_word(value)
    assert word.endswith(f"/0x{bits:08x}")
    assert int(Cursor("file", 1, word).take_float().view(np.uint32)) == bits


@given(st.floats(width=32, allow_nan=False))
def test_the_decimal_alone_is_the_float(number: float) -> None:
    value = np.float32(number)
    decimal = float_word(value).partition("/")[0]
    assert Cursor("file", 1, decimal).take_float().tobytes() == value.tobytes()


@given(st.text())
def test_a_text_comes_back_from_one_visible_line(text: str) -> None:
    literal = quoted(text)
    assert literal.isprintable()
    cursor = Cursor("file", 1, f"  {literal}  # comment")
    assert cursor.take_text("a text") == text
    cursor.take_end()


def test_what_turns_the_reading_direction_is_escaped() -> None:
    assert quoted("a\u202eb") == '"a\\u202eb"'
    assert quoted("Größe") == '"Größe"'
