"""Contracted arithmetic, a fault: a product and the sum that takes it are rounded once, as by -ffp-contract=fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness.operators.fault_models import Single

CONTRACTED = "multiplications and additions are contracted: both are rounded at once"


def contracted(function: Callable[..., Single], *x: Single) -> Single:
    """Return the float32 function of arrays, computed with contraction.

    Products are exact in float64, sums with them nearly so: a second rounding can change one in 2^29 results.
    """
    return np.asarray(function(*(values.view(_Contracted) for values in x)))


class _Contracted(np.ndarray[Any, Any]):
    """Float32 numbers; those that a multiplication gave keep their exact values, float64, for the next operation."""

    exact: Any = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain: list[Any] = [np.asarray(value) for value in inputs]
        result = getattr(ufunc, method)(*plain, **kwargs)
        products = [getattr(value, "exact", None) for value in inputs]
        is_sum = ufunc in (np.add, np.subtract)
        if is_sum and any(product is not None for product in products):
            # One product is taken into the sum: the later one, as compilers keep a product that has other uses, too.
            taken = 1 if products[1] is not None else 0
            plain[taken] = products[taken]
            result = ufunc(*(value.astype(np.float64) for value in plain)).astype(np.float32)
        found = np.asarray(result).view(_Contracted)
        if ufunc is np.multiply and found.dtype == np.float32:
            found.exact = np.multiply(*(value.astype(np.float64) for value in plain))
        return found

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        plain = [np.asarray(value) if isinstance(value, np.ndarray) else value for value in args]
        return np.asarray(function(*plain, **kwargs)).view(_Contracted)
