"""HTML page of the bounds of a program."""

from __future__ import annotations

from harness.applications.wcet.document import AIS, BUNDLE, DOCUMENT, FFX, SCHEMA, WcetDocument
from harness.build.bundle import PROGRAM
from harness.report.page import Check, environment, label_cells, script, sha256sum


def html(document: WcetDocument) -> str:
    """Return the page of a finished analysis."""
    layers = [
        (layer, count, count / document.instructions if document.instructions else 0.0)
        for layer in document.layers
        for count in [layer.instructions + layer.library]
    ]
    page = (
        environment("harness.applications.wcet")
        .get_template("wcet.html.jinja")
        .render(
            run=document,
            schema=SCHEMA,
            document_name=DOCUMENT,
            layers=layers,
            largest=max(layers, key=lambda each: each[1], default=None),
            branches=sum(len(layer.decided_by_data) for layer in document.layers),
            files=(FFX, AIS),
            script=script("tables.js"),
            checks=[
                Check(
                    "The program is the one of this page", sha256sum((f"{BUNDLE}/{PROGRAM}", document.program_sha256))
                ),
                Check("The bounds are those of the program", "harness verify ."),
            ],
        )
    )
    return label_cells(page)
