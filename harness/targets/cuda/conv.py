"""Conv in CUDA: sums in the order of the formula."""

from __future__ import annotations

from harness.operators.conv import Conv
from harness.targets.cuda.convolution import ConvolutionLowering


class ConvLowering(ConvolutionLowering[Conv]):
    """One thread adds the products of one output."""

    operator = Conv
    sum_of_products = "conv"
