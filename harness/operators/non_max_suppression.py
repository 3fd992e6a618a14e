"""NonMaxSuppression (domain harness): the boxes with the greatest scores that overlap no better one of their class.

Boxes are (batches, boxes, 4), scores (batches, classes, boxes); the vectors are in front.  An import writes ONNX's
operator as this one.  ONNX gives as many rows (batch, class, box) as boxes are selected.  Here are always
batches * classes * min(max_output_boxes_per_class, boxes) rows: those of ONNX in their order, then rows of -1.  Of
equal scores the box with the lower index is first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import onnx
import onnx.parser

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, fields
from harness.operators.exact.expression import Expression, equal, larger, literal, select, smaller
from harness.operators.exact.stages import (
    Axis,
    Source,
    Stage,
    State,
    array,
    constant,
    fold,
    narrowed,
    place,
    recurrence,
)
from harness.operators.float_errors import Errors
from harness.operators.node import Node
from harness.operators.onnx_function import DOMAIN
from harness.operators.rules import Rules
from harness.operators.selection import Selection, exact_errors, fragment
from harness.operators.sizes import Size
from harness.operators.tensor import FLOAT32, INT32, INT64
from harness.operators.text import Text

ORDER = 290
COLUMNS = 3
"""The columns of a row: batch, class, box."""
CORNERS = 4
REMOVED = -math.inf
"""The score of a box that is not selected any more."""
ATTRIBUTES = {
    "center_point_box": "int",
    "max_output_boxes_per_class": "int",
    "iou_threshold": "float",
    "score_threshold": "float",
}
"""The attributes and their types: the inputs of ONNX's operator that must be constant are attributes here."""
BODY = """\
    zero = Constant <value_ints = [0]> ()
    one = Constant <value_ints = [1]> ()
    two = Constant <value_ints = [2]> ()
    three = Constant <value_ints = [3]> ()
    four = Constant <value_ints = [4]> ()
    last = Constant <value_ints = [-1]> ()
    most = Constant <value_int: int = @max_output_boxes_per_class> ()
    iou = Constant <value_float: float = @iou_threshold> ()
    least = Constant <value_float: float = @score_threshold> ()
    sizes = Shape (scores)
    vectors = Slice (sizes, zero, one)
    batches = Slice (sizes, one, two)
    classes = Slice (sizes, two, three)
    size = Slice (sizes, three, four)
    form_of_boxes = Concat <axis = 0> (last, size, four)
    form_of_scores = Concat <axis = 0> (last, classes, size)
    all_boxes = Reshape (boxes, form_of_boxes)
    all_scores = Reshape (scores, form_of_scores)
    selected = NonMaxSuppression <center_point_box: int = @center_point_box> (all_boxes, all_scores, most, iou, least)
    batch_of_all = Slice (selected, zero, one, one)
    vector = Div (batch_of_all, batches)
    batch = Mod (batch_of_all, batches)
    class_and_box = Slice (selected, one, three, one)
    row = Concat <axis = 1> (batch, class_and_box)
    vector_of_row = Squeeze (vector, one)
    following = Concat <axis = 0> (last, vector_of_row)
    before = Slice (following, zero, last)
    same = Equal (before, vector_of_row)
    is_first = Not (same)
    count = Shape (vector_of_row)
    count_of_rows = Squeeze (count, zero)
    from = Constant <value_int = 0> ()
    step = Constant <value_int = 1> ()
    numbers = Range (from, count_of_rows, step)
    numbers_of_first = Compress <axis = 0> (numbers, is_first)
    vector_of_first = Compress <axis = 0> (vector_of_row, is_first)
    no_rows = ConstantOfShape <value = int64[1] {0}> (vectors)
    first = ScatterElements <axis = 0> (no_rows, vector_of_first, numbers_of_first)
    first_of_row = Gather <axis = 0> (first, vector_of_row)
    rank = Sub (numbers, first_of_row)
    ranks = Unsqueeze (rank, one)
    places = Concat <axis = 1> (vector, ranks)
    most_of_class = Min (most, size)
    most_of_batch = Mul (most_of_class, classes)
    rows = Mul (most_of_batch, batches)
    form = Concat <axis = 0> (vectors, rows, three)
    none = ConstantOfShape <value = int64[1] {-1}> (form)
    y = ScatterND (none, places, row)
"""
"""The steps of the ONNX function: the rows of each vector begin at its own place, behind them are rows of -1."""


class Sizes(NamedTuple):
    """The sizes of boxes (batches, boxes, 4) and scores (batches, classes, boxes), and the most boxes of a class."""

    batches: int
    classes: int
    boxes: int
    most: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.batches * self.classes * self.most

    @property
    def numbers(self) -> Array:
        """The numbers of batches, classes, boxes, columns and rows, int32."""
        return np.arange(max(self.boxes, self.rows, COLUMNS), dtype=np.int32)


def definition(sizes: Sizes, *, is_centre: bool) -> Stage:
    """Return the definition; `is_centre` if a box is its centre, width and height instead of two corners."""
    axes = zip("bcitrd", (*sizes, sizes.rows, COLUMNS), strict=True)
    b, c, i, t, r, d = (Axis(name, size) for name, size in axes)
    k, other_b, other_c = Axis("k", 2), Axis("p", sizes.batches), Axis("q", sizes.classes)
    boxes, scores = Source("x", (b, i, Axis("corner", CORNERS))), Source("x1", (b, c, i))
    numbers = Source("numbers", (Axis("n", len(sizes.numbers)),), INT32, is_constant=True)
    iou_threshold, score_threshold = constant("iou_threshold"), constant("score_threshold")
    one, other = boxes[b, i, k], boxes[b, i, k + 2]
    low = array("low", (b, i, k), one - other / 2 if is_centre else smaller(one, other))
    high = array("high", (b, i, k), one + other / 2 if is_centre else larger(one, other))
    area = array("area", (b, i), (high[b, i, 0] - low[b, i, 0]) * (high[b, i, 1] - low[b, i, 1]))

    def step(scores: State, _: State) -> list[Expression]:
        """Select the remaining box with the greatest score, and remove it and those that overlap it."""
        top = fold("top", (b, c), (i,), REMOVED, lambda top: larger(scores[b, c, i], top))
        at = place(i) * -1 + (sizes.boxes - 1)  # the first of equal scores is the last one here
        first = fold("first", (b, c), (i,), literal(-1, INT32),
                     lambda first: select(equal(scores[b, c, at], top[b, c]), numbers[at], first))  # fmt: skip
        box = array("box", (b, c), select(top[b, c] > REMOVED, first[b, c], literal(-1, INT32)))

        def of_box(name: str, values: Stage, *at: Axis) -> Stage:
            def choice(value: Expression) -> Expression:
                return select(equal(numbers[i], box[b, c]), values[(b, i, *at)], value)

            return fold(name, (b, c, *at), (i,), 0, choice)

        low_of_box, high_of_box = of_box("low_of_box", low, k), of_box("high_of_box", high, k)
        area_of_box = of_box("area_of_box", area)
        nearest = smaller(high[b, i, k], high_of_box[b, c, k])
        side = array("side", (b, c, i, k), larger(nearest - larger(low[b, i, k], low_of_box[b, c, k]), 0))
        shared = side[b, c, i, 0] * side[b, c, i, 1]
        union = area_of_box[b, c] + area[b, i] - shared
        is_removed = (shared / union > iou_threshold) | equal(numbers[i], box[b, c])
        return [select(is_removed, literal(REMOVED), scores[b, c, i]), box[b, c]]

    start = select(scores[b, c, i] > score_threshold, scores[b, c, i], literal(REMOVED))
    _, box = recurrence(t, {"s": ((b, c, i), start), "selected": ((b, c), literal(-1, INT32))}, step)
    zero, none = literal(0, INT32), literal(-1, INT32)
    count = fold("count", (b, c), (t,), zero, lambda n: select(box[t + 1, b, c] > none, n + 1, n))

    def add_before(n: Expression) -> Expression:
        is_before = numbers[place(other_b) * sizes.classes + other_c] < numbers[place(b) * sizes.classes + c]
        return select(is_before, n + count[other_b, other_c], n)

    before = fold("before", (b, c), (other_b, other_c), zero, add_before)

    def row(y: Expression) -> Expression:
        is_row = (box[t + 1, b, c] > none) & equal(before[b, c] + numbers[t], numbers[r])
        class_or_box = select(equal(numbers[d], literal(1, INT32)), numbers[c], box[t + 1, b, c])
        return select(is_row, select(equal(numbers[d], zero), numbers[b], class_or_box), y)

    return narrowed(fold("row", (r, d), (b, c, t), none, row), INT64)


PARAMETERS = {
    "x": "float32 (vectors, batches * boxes * 4): the boxes",
    "x1": "float32 (vectors, batches * classes * boxes): the scores",
    "numbers": "int32 (1, n): 0 to n - 1",
    "iou_threshold": "float32 (1, 1)",
    "score_threshold": "float32 (1, 1)",
    "axes": "int32 (1, 4): batches, classes, boxes, the most boxes of a class",
}


def _fragment(*, is_centre: bool) -> Any:
    name = "non_max_suppression_of_centres" if is_centre else "non_max_suppression"
    return fragment(name, ORDER + is_centre, definition(Sizes(2, 2, 2, 2), is_centre=is_centre), PARAMETERS)


@dataclass(frozen=True, eq=False)
class NonMaxSuppression(Selection):
    """The rows (batch, class, box) of the selected boxes, then rows of -1."""

    ONNX = ((DOMAIN, "NonMaxSuppression"),)
    text = Text(
        "y = rows (batch, class, box) of the boxes with the greatest scores above score_threshold whose intersection "
        "over union with each better one of their class is at most iou_threshold, then rows of -1",
        ("boxes", "scores"),
        (_fragment(is_centre=False), _fragment(is_centre=True)),
        chosen=lambda layer: int(layer.is_centre),
        facts_of=lambda layer: layer.thresholds | {"center_point_box": int(layer.is_centre)},
        summary_of=lambda layer: (f"{layer.sizes.most} of {layer.places} for each class",),
    )
    inputs_of_onnx: ClassVar[int] = 2
    errors = Ability[Errors](lambda layer: replace(exact_errors(layer), bounds=layer.output_bounds))

    sizes: Sizes
    thresholds: dict[str, np.float32]
    is_centre: bool

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes that boxes and scores share, and those of the rows."""
        scores = node.input(1)
        node.same_type(node.x, scores).is_type(node.y, np.int64)
        node.equals(node.x.rank, 4).equals(scores.rank, 4).equals(node.y.rank, 3)
        node.equals(node.x.size(3), CORNERS).equals(node.y.size(2), COLUMNS)
        for axis, axis_of_scores in ((0, 0), (1, 1), (2, 3)):
            node.equals(node.x.size(axis), scores.size(axis_of_scores))
        node.equals(node.x.size(0), node.y.size(0))
        most = int(node.attribute("max_output_boxes_per_class", 0))

        def rows(*sizes: Size) -> None:
            batches, classes, boxes = (size.constant for size in sizes)
            if batches and classes and boxes:
                node.equals(node.y.size(1), batches * classes * min(most, boxes))

        node.given(*(scores.size(axis) for axis in (1, 2, 3))).then(rows)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with a bound of boxes and constant thresholds."""
        node.require_inputs(2, 2)
        stated = node.attributes(
            {"center_point_box": 0, "max_output_boxes_per_class": 0, "iou_threshold": 0.0, "score_threshold": REMOVED}
        )
        boxes, scores = (node.activation(position, [FLOAT32]) for position in (0, 1))
        shapes = boxes.shape, scores.shape
        is_shaped = [len(shape) for shape in shapes] == [3, 3] and shapes[0][2] == CORNERS
        if not is_shaped or (shapes[0][0], shapes[0][1]) != (shapes[1][0], shapes[1][2]):
            raise node.refusal(
                f"boxes and scores have shapes {shapes[0]} and {shapes[1]}",
                "(batches, boxes, 4) and (batches, classes, boxes), behind the vectors",
            )
        most, iou, is_centre = (stated[name] for name in [*ATTRIBUTES][1:3] + [*ATTRIBUTES][:1])
        if most < 1 or not 0 <= iou <= 1 or is_centre not in (0, 1) or math.isnan(stated["score_threshold"]):
            raise node.refusal(
                f"max_output_boxes_per_class is {most}, iou_threshold {iou:g}, center_point_box {is_centre}, "
                f"score_threshold {stated['score_threshold']:g}",
                "1 box or more, an iou_threshold from 0 to 1, a center_point_box of 0 or 1, a number",
            )
        (batches, count, _), classes = shapes[0], shapes[1][1]
        sizes = Sizes(batches, classes, count, min(most, count))
        thresholds = {name: np.float32(stated[name]) for name in ("iou_threshold", "score_threshold")}
        written = fields(node, [boxes, scores], (sizes.rows, COLUMNS), INT64, math.inf)
        return cls(**written, sizes=sizes, thresholds=thresholds, is_centre=bool(is_centre))

    @property
    def places(self) -> int:
        """The number of boxes among which the layer chooses."""
        return self.sizes.boxes

    def definition(self) -> Stage:
        """Return the definition for the shapes of the inputs."""
        return definition(self.sizes, is_centre=self.is_centre)

    def numbers(self) -> dict[str, Array]:
        """Return the numbers of batches, classes, boxes, columns and rows, and the thresholds."""
        thresholds = {name: np.array([value]) for name, value in self.thresholds.items()}
        return {"numbers": self.sizes.numbers, **thresholds}

    def constants(self) -> Constants:
        """Return the same and the sizes."""
        return {**self.numbers(), "axes": np.array(self.sizes, np.int32)}

    def output_bounds(self, low: Any, high: Any) -> tuple[Array, Array]:  # noqa: ARG002 - all are possible
        """Return -1, and the greatest number of a batch, class or box."""
        greatest = max(self.sizes.batches, self.sizes.classes, self.sizes.boxes) - 1
        return np.full((1, self.size), -1, np.int64), np.full((1, self.size), greatest, np.int64)

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto:  # noqa: ARG003 - always two
        """Return the ONNX function."""
        return onnx.parser.parse_function(
            f'<domain: "{DOMAIN}", opset_import: ["" : {opset}]>\nNonMaxSuppression <{", ".join(ATTRIBUTES)}> '
            f"(boxes, scores) => (y)\n{{\n{BODY}}}"
        )
