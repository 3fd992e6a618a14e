"""Documents of measurements, as the tests of their reports have them."""

from tests.unit.report.measurements.conftest import counted, disturbed, few, layers, noisy, slower, sound, varying

__all__ = ["counted", "disturbed", "few", "layers", "noisy", "slower", "sound", "varying"]
