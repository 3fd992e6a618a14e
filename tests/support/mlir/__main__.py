"""Write the texts of the small networks."""

from tests.support.mlir import FOLDER, SMALL, text_of

for name in SMALL:
    (FOLDER / f"{name}.mlir").write_text(text_of(name))
