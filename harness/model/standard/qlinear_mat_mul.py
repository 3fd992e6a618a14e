"""QLinearMatMul: QGemm without bias."""

from harness.model.standard.qgemm import emit

__all__ = ["emit"]
