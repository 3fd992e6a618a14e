"""All forgeries, by what they are of."""

from __future__ import annotations

from tests.campaigns.forgeries import (
    of_boards,
    of_decisions,
    of_documents,
    of_folders,
    of_measurements,
    of_models,
    of_proofs,
    of_results,
    of_signatures,
    of_sources,
)

KINDS = {
    "board": "The folder names a board that did not run, or a wrong kind of board.",
    "verdict": "The verdict, a number or a dump is not the result of the run.",
    "proof": "The proof claims more than its queries and answers show.",
    "sources": "The named sources, compiler and flags give another program.",
    "model": "Model, plan or vectors are not those of the run.",
    "measurement": "A time, a statistic or an output was not measured.",
    "format": "A file contradicts itself or has an unknown entry; a report differs from run.json.",
    "times": "The times of the run contradict each other, or its revision.",
    "decision": "A decision of a property claims sets, counts or numbers that its network does not have.",
    "folder": "A decision, bounds, a profile or a case has an added file, link or folder, or a page of other words.",
    "program": "Bounds are of another program than the bundle, or than the runs of the bundle.",
    "padding": "A file has bytes that no reader of its content sees.",
    "signature": "The signature is not from the laboratory, or belongs to another run.",
}
MODULES = (
    *(of_boards, of_results, of_proofs, of_sources),
    *(of_models, of_measurements, of_documents, of_signatures),
    *(of_decisions, of_folders),
)
FORGERIES = tuple(forgery for module in MODULES for forgery in module.FORGERIES)
