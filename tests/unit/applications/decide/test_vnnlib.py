"""The accepted part of VNN-LIB, and the message for everything else."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest

from harness.applications.decide.vnnlib import Comparison, Violation, read
from harness.core.errors import RequestError

DECLARED = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0", "Y_1"))


def parsed(tmp_path: Path, text: str, declared: str = DECLARED) -> Violation:
    path = tmp_path / "property.vnnlib"
    path.write_text(declared + text)
    return read(path, 2, 2)


def test_bounds_and_half_spaces(tmp_path: Path) -> None:
    found = parsed(
        tmp_path,
        """; bounds (
        (assert (>= X_0 -0.5)) (assert (<= X_0 0.25)) (assert (and (<= 1e-3 X_1) (<= X_1 2)))
        (assert (<= X_0 0.75))
        (assert (or (and (> Y_0 Y_1) (<= Y_1 3.5)) (and (>= Y_1 1))))
        (assert (< Y_0 4))""",
    )
    assert found.bounds == ((Fraction(-1, 2), Fraction(1, 4)), (Fraction(1, 1000), Fraction(2)))
    below = Comparison(0, None, strict=True, at_most=True, constant=Fraction(4))
    first = Comparison(0, 1, strict=True), Comparison(1, None, strict=False, at_most=True, constant=Fraction(7, 2))
    assert found.half_spaces == ((*first, below), (Comparison(1, None, strict=False, constant=Fraction(1)), below))


def test_an_equality_is_a_pair_of_comparisons(tmp_path: Path) -> None:
    found = parsed(
        tmp_path, "(assert (= X_0 0.25))(assert (<= 1/2 X_1))(assert (<= X_1 .5e0))(assert (or (= Y_0 Y_1) (= Y_1 3)))"
    )
    assert found.bounds == ((Fraction(1, 4),) * 2, (Fraction(1, 2),) * 2)
    three = {"left": 1, "right": None, "strict": False, "constant": Fraction(3)}
    assert found.half_spaces == (
        (Comparison(0, 1, strict=False), Comparison(1, 0, strict=False)),
        (Comparison(**three), Comparison(**three, at_most=True)),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("alternatives", [59, 60])
def test_alternatives_are_counted_before_they_are_multiplied(tmp_path: Path, alternatives: int) -> None:
    either = "".join(f"(>= Y_0 {index})" for index in range(alternatives))
    product = "".join(f"(or (>= Y_0 {index}) (>= Y_1 {index}))" for index in range(26))
    if alternatives < 60:
        assert len(parsed(tmp_path, f"(assert (or {either}))").half_spaces) == 59
        return
    for text in (f"(or {either})", f"(and {product})", f"(or (and {product}))"):
        with pytest.raises(RequestError, match="more than 59 alternatives"):
            parsed(tmp_path, f"(assert {text})")
    with pytest.raises(RequestError, match="more than 59 alternatives"):
        parsed(tmp_path, product.replace("(or", "(assert (or").replace("))", ")))"))


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.vnnlib")
    with pytest.raises(RequestError, match="not a file of at most 64 MiB"):
        read(tmp_path / "pipe.vnnlib", 2, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(assert (<= Y_0 1e999999999))", "1e999999999 is no number of float64's range"),
        ("(assert (<= Y_0 -1e-999999999))", "is no number"),
        (f"(assert (<= Y_0 {'9' * 2000}))", "is no number"),
        ("(assert (<= Y_0 1e309))", "is no number"),
        ("(assert (<= Y_0 1/0))", "is no number"),
        (f"(assert (<= Y_0 1e{chr(0xFF19) * 9}))", "is no number"),
        ("(assert (<= X_0 -1))(assert (>= X_0 1))(assert (<= Y_0 1))", "X_0 is at least 1 and at most -1: no input"),
        ("(assert (<= X_00 1))(assert (<= Y_0 1))", "X_00"),
        ("(assert (<= Y_0 Y_2))", "Y_2 is beyond the network's 2"),
        ("(assert (<= (+ Y_0 Y_1) 1))", "is no comparison"),
        ("(assert (<= X_0 Y_0))", "X_0 are compared|X_0 and"),
        ("(assert (or (<= X_0 1) (<= X_0 2)))", "outside `or`"),
        ("(assert (< X_0 1))(assert (<= Y_0 1))", "with <= or >="),
        ("(assert (<= Y_0 one))", "neither a variable nor a number"),
        ("(assert (<= Y_0 1)", "has no \\)"),
        ("(assert (<= Y_0 1)))", "has no \\("),
        ("(check-sat)", "neither declare-const"),
        ("(assert (<= X_0 1))", "compares no output"),
        ("", "compares no output"),
    ],
)
def test_everything_else_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        parsed(tmp_path, text)


def test_other_variables_than_the_network_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="declares 3 variables, the network has 2 inputs and 2 outputs: Y_1"):
        parsed(tmp_path, "(assert (<= Y_0 1))", DECLARED.replace("(declare-const Y_1 Real)", ""))
    with pytest.raises(RequestError, match="cannot read"):
        read(tmp_path / "none.vnnlib", 2, 2)
    (tmp_path / "deep.vnnlib").write_text("(" * 100_000)
    with pytest.raises(RequestError, match=r"deep\.vnnlib"):
        read(tmp_path / "deep.vnnlib", 2, 2)
