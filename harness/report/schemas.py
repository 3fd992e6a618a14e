"""The JSON Schema of every document: `python -m harness.report.schemas` writes docs/schemas again."""

from __future__ import annotations

from harness.analysis.proof_document import ProofDocument
from harness.build.bundle import Manifest
from harness.core import registry
from harness.core.document import Document, json_schema
from harness.core.installation import ROOT
from harness.model.analysis.document import AnalysisDocument
from harness.nightly.record import NightDocument
from harness.runs.entries import MeasurementDocument, RunDocument

FOLDER = ROOT / "docs" / "schemas"
DOCUMENTS: dict[str, type[Document]] = {
    "run": RunDocument,
    "measurement": MeasurementDocument,
    "proof": ProofDocument,
    "night": NightDocument,
    "bundle": Manifest,
    "analysis": AnalysisDocument,
    **{name: registry.document(name) for name in registry.DOCUMENTS},
}


def schemas() -> dict[str, str]:
    """Return the content of each file of docs/schemas by its name."""
    return {f"{name}.schema.json": json_schema(model) for name, model in DOCUMENTS.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in schemas().items():
        (FOLDER / file).write_text(text)
