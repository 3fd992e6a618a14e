"""One forgery after the other: `harness verify` and `harness sign` see the folder as they see any other."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.build import bundle
from harness.build.bundle import Recipe
from harness.cli.main import cli
from harness.core.errors import HarnessError
from harness.runs.folder import envelope_of
from tests.campaigns.forgeries.bases import Bases
from tests.campaigns.forgeries.forger import document_in, forge
from tests.campaigns.forgeries.forgery import Forgery
from tests.support.objects import searched_once

UNREADABLE, REJECTED = 2, {1, 2, 3}


@dataclass(frozen=True)
class Seen:
    """What `harness verify` said: its exit code, the claims that speak against the run, and why."""

    code: int
    claims: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Outcome:
    """What became of a forgery; `signed` says that `harness sign` vouched for it."""

    forgery: Forgery
    seen: Seen
    signed: bool

    @property
    def rejected(self) -> bool:
        """Whether both commands rejected it; where the run itself is true, it may be signed."""
        return self.seen.code in REJECTED and (self.forgery.needs_key or not self.signed)


def attempt(bases: Bases, forgery: Forgery, folder: Path) -> Outcome:
    """Forge a run in an empty folder, and give it to both commands."""
    base = bases.folder(forgery.base)
    for other in base.parent.iterdir():
        (folder / other.name).symlink_to(other)  # what it was compared with lies beside it
    (target := folder / base.name).unlink()
    change = forgery.change_for(bases)
    if forgery.redone:
        forge(base, target, change)
    else:
        shutil.copytree(base, target)
        change(target)
    return Outcome(forgery, verified(bases, target, with_key=forgery.needs_key), signed(bases, target))


def verified(bases: Bases, run: Path, *, with_key: bool = False) -> Seen:
    """Return what `harness verify` says of a run, with its defaults."""
    code, out = command(bases, "verify", str(run), "--json", *(("--key", f"{bases.key}.pub") if with_key else ()))
    if code == UNREADABLE:
        return Seen(code, (), out)
    found = json.loads(out)["claims"]
    against = [claim for claim in found if claim["state"] == "not ok" or (claim["needed"] and claim["state"] != "ok")]
    claims = dict.fromkeys(claim["claim"].partition(" ")[0] for claim in against)  # "leaf" without its name
    return Seen(code, tuple(claims), against[0]["text"] if against else "")


def signed(bases: Bases, run: Path) -> bool:
    """Return whether `harness sign` vouches for a run; a refused one keeps its envelope."""
    before = _envelope(run)
    code, why = command(bases, "sign", str(run), "--key", str(bases.key))
    if code != 0 and _envelope(run) != before:
        raise AssertionError(f"harness sign refused, and changed the envelope: {why}")
    return code == 0


def _envelope(run: Path) -> bytes | None:
    path = run / envelope_of(document_in(run).name)
    return path.read_bytes() if path.exists() else None


def command(bases: Bases, *arguments: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code, and its standard output or its error."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        for name, value in bases.environment.items():
            patch.setenv(name, value)
        try:
            code = cli.main(["--runs", str(bases.user.folder / "runs"), *arguments], standalone_mode=False)
        except HarnessError as error:
            return error.exit_code, error.message
    return int(code or 0), out.getvalue()


@contextmanager
def once(folder: Path) -> Iterator[None]:
    """Do once what all commands of this process would do again: search a model's ties, build a bundle."""
    folder.mkdir(exist_ok=True)
    build = bundle._build

    def built(recipe: Recipe, sha256: str, target: Path) -> None:
        if not (folder / sha256).exists():
            build(recipe, sha256, folder / sha256)
        shutil.copytree(folder / sha256, target)

    with pytest.MonkeyPatch.context() as patch, searched_once(folder):
        patch.setattr(bundle, "_build", built)
        yield
