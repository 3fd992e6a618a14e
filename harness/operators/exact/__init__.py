"""The exact language of definitions: typed scalar expressions, and what is derived from them.

`expression` has the language, `evaluation` computes it in numpy, `ranges` bounds it, `mutations` makes faults of it,
`printing` writes it for people and as NNEF.  The emitters of C, CUDA and MLIR are in the packages of their targets.
`floats` decides roundings to quantised values by integer arithmetic.  docs/reference/definitions.md specifies the
language.
"""

from harness.operators.exact.floats import (
    BLOCK,
    CACHED_LAYERS,
    Staircase,
    bits_of,
    float_bits,
    from_ordered,
    fused,
    ordered,
    quantised,
    saturate,
    smallest,
)

__all__ = [
    "BLOCK",
    "CACHED_LAYERS",
    "Staircase",
    "bits_of",
    "float_bits",
    "from_ordered",
    "fused",
    "ordered",
    "quantised",
    "saturate",
    "smallest",
]
