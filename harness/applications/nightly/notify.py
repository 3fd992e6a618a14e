"""Notifications after a night: JSON to a webhook, and e-mail, only if something changed since the night before."""

from __future__ import annotations

import json
import os
import smtplib
import urllib.request
from collections.abc import Iterator, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.applications.nightly import summary
from harness.applications.nightly.previous_nights import Past
from harness.core.errors import RequestError
from harness.core.safe_io import clean
from harness.runs.history.night_record import Night
from harness.runs.history.nights import Change
from harness.runs.history.nights import Past as Results
from harness.runs.history.run import read

TIMEOUT_S = 20.0
PASSWORD = "HARNESS_SMTP_PASSWORD"  # noqa: S105 - the name of a variable
LINES = 20  # of a message; the web page of the lab has all of them


def _address(given: str) -> str:
    if not given.startswith("$") and urlsplit(given).scheme not in {"http", "https"}:
        raise ValueError("write an http or https address, or $VARIABLE of the environment that has it")
    return given


class Email(BaseModel):
    """An e-mail by SMTP; with `user`, the password is in the environment variable HARNESS_SMTP_PASSWORD."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    to: tuple[str, ...] = Field(min_length=1, strict=False)
    sender: str = Field(alias="from", min_length=3)
    host: str = Field(min_length=1)
    port: int = Field(default=25, ge=1, le=65535)
    starttls: bool = False
    user: str | None = None


class Notify(BaseModel):
    """The key `notify` of nightly.yaml: the receivers of notifications."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    webhook: Annotated[str, AfterValidator(_address)] | None = None
    email: Email | None = None


def message(night: Night, runs: Path) -> dict[str, Any] | None:
    """Return the notification about a night as JSON types; None if nothing changed since the night before.

    `text` is what chat tools show; `runs` is the folder of runs, with the earlier nights of the same file.
    """
    results = Results()
    for earlier in Past.read(runs).nights:
        if earlier.file == night.file and earlier.began_s < night.began_s:
            results.add(earlier)
    changes = results.changes(night)
    if not changes:
        return None
    subject = f"harness, night {night.name}: {summary.counted(night)}"
    return {
        "text": "\n".join([subject, *_lines(changes, night, runs)]),
        "subject": subject,
        "night": night.name,
        "exit_code": summary.exit_code(night),
        "changes": [_change(change, night, runs) for change in changes],
    }


def _board_kind(change: Change, night: Night, runs: Path) -> str:
    """Return the kind of board that the run of a changed entry reached, such as `emulated`; empty if it is unknown."""
    result = night.results.get(change.entry.number) if change.entry else None
    return read(runs / result.run).kind if result and result.run else ""


def _lines(changes: Sequence[Change], night: Night, runs: Path) -> Iterator[str]:
    for change in changes[:LINES]:
        kind = _board_kind(change, night, runs)
        name = f"{change.entry.key if change.entry else change.board}{f' [{kind}]' if kind else ''}"
        before = f" (before: {change.before})" if change.before else ""
        yield clean(f"{change.kind}: {name}: {change.reason}{before}")
    if len(changes) > LINES:
        yield f"and {len(changes) - LINES} more changes"


def _change(change: Change, night: Night, runs: Path) -> dict[str, str]:
    return {
        "kind": str(change.kind),
        "board": change.board,
        "board_kind": _board_kind(change, night, runs),
        "entry": change.entry.key if change.entry else "",
        "now": change.now,
        "before": change.before,
        "reason": change.reason,
    }


def receivers(wanted: Notify) -> list[str]:
    """Return the receivers, without the webhook's path, which is often a secret."""
    hook = wanted.webhook or ""
    hooks = [f"webhook {hook if hook.startswith('$') else urlsplit(hook).hostname}"] if hook else []
    return hooks + [f"e-mail {address}" for address in (wanted.email.to if wanted.email else ())]


def send(wanted: Notify, content: dict[str, Any]) -> list[str]:
    """Send a notification to all receivers; return a line for each that failed."""
    failed = []
    for name, sending in (("webhook", _post), ("e-mail", _mail)):
        try:
            sending(wanted, content)
        except (OSError, ValueError, RequestError, smtplib.SMTPException) as error:
            failed.append(f"{name}: {error}")
    return failed


def _post(wanted: Notify, content: dict[str, Any]) -> None:
    if wanted.webhook is None:
        return
    address = wanted.webhook
    if address.startswith("$"):
        address = _address(os.environ.get(address[1:]) or "")
    request = urllib.request.Request(  # noqa: S310 - http or https, see _address
        address, json.dumps(content).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310 - as above
        pass


def _mail(wanted: Notify, content: dict[str, Any]) -> None:
    if wanted.email is None:
        return
    email, mail = wanted.email, EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = content["subject"], email.sender, ", ".join(email.to)
    mail.set_content(content["text"])
    with smtplib.SMTP(email.host, email.port, timeout=TIMEOUT_S) as server:
        if email.starttls:
            server.starttls()
        if email.user:
            if not os.environ.get(PASSWORD):
                raise RequestError(f"{PASSWORD} is not set")
            server.login(email.user, os.environ[PASSWORD])
        server.send_message(mail)
