"""The numbers of De Albuquerque Silva et al., ACETONE, ECRTS 2022: section 4.1 and tables 1 to 5.

The keys are networks, and frameworks: the paper's versions V1, V2 and V3, and the tools that it compares them with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.core.document import Number

PAPER = "De Albuquerque Silva, Carle, Gauffriau, Pagetti: ACETONE, ECRTS 2022, doi 10.4230/LIPIcs.ECRTS.2022.3"
NETWORKS = ("reg50", "reg100", "reg200", "decr128", "decr256", "LeNet-5", "CifarNet", "AlexNet", "VGG-16")
OTHERS = ("Keras2C", "uTVM static")
PARAMETERS: Mapping[str, Number | str] = {
    "LeNet-5": 44_426,
    "CifarNet": 122_570,
    "AlexNet": "about 61 million",
    "VGG-16": "138.36 million",
}
OPERATIONS: Mapping[str, Number | str] = {"LeNet-5": 572_504, "CifarNet": "9.18 million", "AlexNet": "1.64 billion"}
Rows = Mapping[str, Sequence[Number | None]]


def _columns(names: Iterable[str], rows: Rows) -> dict[tuple[str, str], Number]:
    """Return the numbers of a table of the paper by network and framework."""
    found = {}
    for framework, values in rows.items():
        for network, value in zip(names, values, strict=True):
            if value is not None:
                found[network, framework] = value
    return found


ERRORS = _columns(
    NETWORKS,
    {
        "V1": (2.0265e-6, 1.4305e-6, 4.7683e-7, 1.4305e-6, 5.9604e-7, 1.7881e-6, 6.1988e-6, 2.142e-6, 4.7087e-6),
        "Keras2C": (2.0265e-6, 1.4305e-6, 4.7683e-7, 8.34465e-7, 9.5367e-7, 2.0265e-6, 5.6028e-6, None, None),
        "uTVM static": (1.6689e-6, 9.5367e-7, 1.1921e-7, 2.3842e-7, 2.3842e-7, 1.9073e-6, 4.2915e-6, None, None),
    },
)
CYCLES = {
    "-O0": _columns(
        ("reg50", "decr128", "decr256", "LeNet-5", "CifarNet"),
        {
            "V1": (381_439, 888_190, 3_975_111, 23_934_418, 464_386_831),
            "V2": (243_195, 533_767, 2_339_851, 12_186_378, 233_450_428),
            "V3": (357_483, 650_895, 6_466_297, None, None),
            "Keras2C": (499_315, 1_104_134, 4_977_515, 25_786_401, 642_390_830),
            "uTVM static": (416_796, 681_708, 2_677_785, 10_201_249, 193_599_362),
        },
    ),
    "-O3": _columns(
        ("decr256", "CifarNet"),
        {"V2": (441_992, 53_773_643), "Keras2C": (2_117_467, 273_594_356), "uTVM static": (291_609, 69_022_625)},
    ),
}
BOUNDS = _columns(
    NETWORKS[:7],
    {
        "V1": (8_025_404, 21_288_195, 84_655_395, 26_092_073, 121_206_406, 6_881_827_044, 361_743_738_250),
        "V2": (5_617_830, 13_971_737, 55_122_437, 6_128_253, 24_461_227, 165_718_749, 3_018_534_290),
        "Keras2C": (5_033_535, 19_692_951, 79_383_490, 36_838_054, 112_237_358, 1_160_385_934, 97_959_064_345),
        "uTVM static": (4_008_298, 15_711_232, 58_832_502, 6_765_413, 27_015_092, 113_449_651, 3_215_754_680),
    },
)
SEGMENTS = ("stack", "data", "bss", "text")
MEMORY: Mapping[tuple[str, str], Sequence[Number | None]] = {
    ("reg50", "V1"): (240, 66_548, 708, 17_004),
    ("reg50", "V2"): (158, 65_860, 708, 18_556),
    ("reg50", "V3"): (140, 2_444, 708, 1_603_980),
    ("reg50", "Keras2C"): (129_280, None, 2_840, 12_744_060),
    ("reg50", "uTVM static"): (210, None, 2_808, 12_688_208),
}
CORTEX_A15 = "ARM Cortex-A15 of Keystone II, code and data in DDR, {}, mean of 50 executions"
