"""HTML page of a judgement."""

from __future__ import annotations

from harness.applications.judge.document import DOCUMENT, SCHEMA, JudgementDocument
from harness.applications.judge.texts import arithmetic_text, largest_text, remarks, unexplained
from harness.report import differences
from harness.report.page import Check, environment, label_cells, script, sha256sum

SHOWN_PICTURES = 4
MOST_HASHES = 20


def html(document: JudgementDocument) -> str:
    """Return the page of a finished judgement."""
    checks = [Check("The dumps are those of this page", sha256sum(*list(document.files.items())[:MOST_HASHES]))]
    page = (
        environment("harness.applications.judge")
        .get_template("judge.html.jinja")
        .render(
            run=document,
            schema=SCHEMA,
            document_name=DOCUMENT,
            arithmetic=[arithmetic_text(entry) for entry in document.arithmetic],
            unexplained=list(unexplained(document)),
            remarks=list(remarks(document)),
            largest_text=largest_text,
            pictures=[(entry.layer, differences.draw(entry)) for entry in document.pictures],
            shown_pictures=SHOWN_PICTURES,
            checks=checks if document.files else [],
            script=script("tables.js"),
        )
    )
    return label_cells(page)
