"""Forgeries of the program: it is not what the named sources, compiler and flags give."""

from __future__ import annotations

from tests.campaigns.forgeries.forger import Change, Edit, all_of, in_file, in_run
from tests.campaigns.forgeries.forgery import entry_of, forgeries, right_revision

KERNEL = "kernels/c/saturate.h"


def in_bundle(how: Edit) -> Change:
    """Return a change of the bundle in run.json."""
    return in_run(lambda run: how(run["bundle"]))


def file(name: str) -> Change:
    """Return a change of the hash of one of the bundle's files."""
    return in_bundle(lambda bundle: bundle["files"].update({name: "0" * 64}))


def flag(text: str) -> Change:
    """Return a change that adds a flag."""
    return in_bundle(lambda bundle: bundle["flags"].insert(0, text))


def revision(name: str | None) -> Change:
    """Return a change of the revision."""
    return in_run(lambda run: run["harness"].update(revision=name))


other_name = all_of(
    in_bundle(lambda bundle: bundle.update(sha256="0" * 64)),
    in_file("request.json", lambda kept: kept.update(bundle="0" * 64)),
)

FORGERIES = forgeries(
    "sources",
    {
        "a wrong kernel under a revision that is right": ("wrong", right_revision()),
        "a kernel": ("run", file(KERNEL)),
        "a kernel, and the name of the bundle": ("run", all_of(file(KERNEL), other_name)),
        "the generated network": ("run", file("network.c")),
        "a source is removed": ("run", in_bundle(lambda bundle: bundle["files"].pop(KERNEL))),
        "a source is added": ("run", file("kernels/c/more.c")),
        "the program": ("run", file("inference")),
        "the name of the bundle": ("run", other_name),
        "a revision with changes": ("run", revision("0123456789ab-dirty")),
        "a revision that is not here": ("run", revision("0123456789ab")),
        "no revision": ("run", revision(None)),
        "a flag is added": ("run", flag("-O2")),
        "a flag is removed": ("run", in_bundle(lambda bundle: bundle["flags"].remove("-ffp-contract=off"))),
        "a flag that replaces a function": ("run", flag("-Drintf=roundf")),
        "another compiler": ("run", in_bundle(lambda bundle: bundle.update(compiler="gcc 99"))),
        "the bundle of another plan": ("run", entry_of("stand_in", "bundle")),
    },
)
