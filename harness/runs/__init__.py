"""One run from request to verified evidence: job, chunks, documents, measurement, verification, signing.

A run is one folder below runs/; its run.json is written last.
"""

DOCUMENT, REQUEST, ATTEMPTS = "run.json", "request.json", "attempts.jsonl"
"""Files that identify a run folder."""
