"""A model as text: two files that a person can read and compare, and that give back the ONNX file byte for byte.

The description holds the graph and every constant of one value, the weights file all others, a row a line.  That the
two give back the same bytes is not assumed: `describe` reads them back before it hands them out.
"""

from harness.model.text.reader import DESCRIPTION_FORMAT, WEIGHTS_FORMAT, Rebuilt, rebuild
from harness.model.text.tokens import Source, weights_path
from harness.model.text.writer import Description, describe

__all__ = [
    "DESCRIPTION_FORMAT",
    "WEIGHTS_FORMAT",
    "Description",
    "Rebuilt",
    "Source",
    "describe",
    "rebuild",
    "weights_path",
]
