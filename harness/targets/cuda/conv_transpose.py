"""ConvTranspose in CUDA: sums in the order of the formula."""

from __future__ import annotations

from harness.operators.conv_transpose import ConvTranspose
from harness.targets.cuda.convolution import ConvolutionLowering


class ConvTransposeLowering(ConvolutionLowering[ConvTranspose]):
    """One thread adds the products of one output."""

    operator = ConvTranspose
    sum_of_products = "conv_transpose"
