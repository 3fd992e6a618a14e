"""Generate C with ACETONE, and print the version that did as the last line.

usage: acetone_generate.py NNET-FILE FOLDER
       acetone_generate.py network.json FOLDER

network.json and network.npz are those of LiteRT.  ACETONE gets them as a model of Keras, because its release does not
read a Gemm of ONNX with alpha 1.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from acetone_nnet import CodeGenerator

CONVOLUTION = "std_gemm_nn"  # the default of acetone_generate
TABLE = re.compile(r"const float (\w+)\[\d+\]\s*__attribute__\(\(aligned\((\d+)\)\)\) = @(\S+);")
INCLUDED = r"""__asm__(".pushsection .rodata; .balign \2; .globl \1; \1: .incbin \"\3\"; .popsection");"""


class Generator(CodeGenerator):
    """ACETONE, whose tables are files beside the C: as text, those of AlexNet take a compiler three minutes."""

    def __init__(self, file: Any, folder: Path) -> None:
        super().__init__(file, nb_tests=1, versions={"Conv2D": CONVOLUTION})
        self._folder = folder

    def flatten_array(self, array: Any) -> str:
        """Write a table of weights in the order of the same method of ACETONE."""
        return self._written(array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(3, 0, 1, 2))

    def flatten_array_order_c(self, array: Any) -> str:
        """Write another table."""
        return self._written(array)

    def _written(self, array: Any) -> str:
        path = self._folder.resolve() / f"table_{len(list(self._folder.glob('table_*')))}"
        path.write_bytes(array.astype("<f4").tobytes())
        return f"@{path}"


def keras_model(path: Path) -> Any:
    """Return the model of Keras; ACETONE has activations only as part of the layer before."""
    import keras

    first, *steps = json.loads(path.read_text())
    constants, kinds = np.load(path.with_suffix(".npz")), keras.layers
    model = keras.Sequential([keras.Input(first["image"])])
    for number, step in enumerate(steps):
        kernel, padding = step["kernel"], step["padding"].replace("PAD", "valid").lower()
        if step["padding"] == "PAD":
            model.add(kinds.ZeroPadding2D((step["pads"][0::2], step["pads"][1::2])))
        if step["operator"] in {"tanh", "softmax"}:
            model.layers[-1].activation = getattr(keras.activations, step["operator"])
        elif step["operator"] in {"pool", "mean"}:
            kind = {"pool": kinds.MaxPooling2D, "mean": kinds.AveragePooling2D}[step["operator"]]
            model.add(kind(kernel, step["stride"], padding))
        else:
            activation, weights = "relu" if step["relu"] else "linear", constants[f"codes_{number}"]
            if step["operator"] == "conv":
                model.add(kinds.Conv2D(len(weights), kernel, step["stride"], padding, activation=activation))
            elif len(model.output_shape) > 2:
                model.add(kinds.Flatten())
            if step["operator"] == "dense":
                model.add(kinds.Dense(len(weights), activation=activation))
            model.layers[-1].set_weights([np.moveaxis(weights, 0, -1), constants[f"bias_{number}"]])
    return model


def main(source: Path, folder: Path) -> None:
    """Write the C files."""
    Generator(keras_model(source) if source.suffix == ".json" else str(source), folder).generate_c_files(folder)
    variables = folder / "global_vars.c"
    variables.write_text(TABLE.sub(INCLUDED, variables.read_text()))
    sys.stdout.write(f"\n{version('acetone-nnet')}\n")


main(Path(sys.argv[1]), Path(sys.argv[2]))
