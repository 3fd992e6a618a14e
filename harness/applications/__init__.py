"""Commands with an engine, documents and pages of their own, on top of the core; none imports another."""
