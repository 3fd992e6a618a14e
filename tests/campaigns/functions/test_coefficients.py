from __future__ import annotations

import numpy as np
import pytest

from harness.operators.exact import functions
from tests.campaigns.functions import coefficients

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long double has no 64-bit significand"),
]


def test_coefficients_are_those_of_the_definitions() -> None:
    assert coefficients.exp_terms() == functions.EXPONENTIAL[::-1]
    assert coefficients.tanh_terms() == functions.TANH[::-1]
    assert coefficients.log_terms() == functions.LOGARITHM[::-1]
    assert coefficients.error_terms() == functions.ERROR[::-1]
    assert coefficients.complement_terms() == functions.COMPLEMENT[::-1]
