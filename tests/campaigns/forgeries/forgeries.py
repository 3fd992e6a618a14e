"""All forgeries, by what they are of."""

from __future__ import annotations

from tests.campaigns.forgeries import (
    of_boards,
    of_documents,
    of_measurements,
    of_models,
    of_proofs,
    of_results,
    of_signatures,
    of_sources,
)

KINDS = {
    "board": "The board is not the one that ran, or not of the kind that is named.",
    "verdict": "The verdict, a number or a dump is not what the run has shown.",
    "proof": "The proof claims more than was asked or answered.",
    "sources": "The program is not what the named sources, compiler and flags give.",
    "model": "Model, plan or vectors are not those that ran.",
    "measurement": "A time, a statistic or an output is not what was measured.",
    "format": "A file says two things, or what this version does not know; a report says another thing than run.json.",
    "times": "The times of the run contradict each other.",
    "signature": "The signature is not the laboratory's, or is of another run.",
}
MODULES = (
    *(of_boards, of_results, of_proofs, of_sources),
    *(of_models, of_measurements, of_documents, of_signatures),
)
FORGERIES = tuple(forgery for module in MODULES for forgery in module.FORGERIES)
