"""Notifications, received by a real HTTP server and a real SMTP dialogue."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.applications.nightly import notify
from harness.applications.nightly.notify import Email, Notify
from harness.core.outcome import Ending, Outcome
from harness.runs.history import night_record as record
from harness.runs.history.night_record import Attempt, Entry, Night, Result
from tests.support.history.laboratory import run_document

RIGHT, WRONG = Ending(Outcome.IDENTICAL, "all are"), Ending(Outcome.DIFFERS, "dense_3, vector 7")
CONTENT = {"text": "harness: 1 differs\nnewly wrong: x", "subject": "harness: 1 differs"}


def night(runs: Path, began_s: float, *endings: Ending, file: str = "nightly.yaml") -> Night:
    folder = runs / "nights" / f"{began_s:020.0f}"
    entries = tuple(
        Entry(number, "xavier", f"net{number}", "", "run", Outcome.IDENTICAL, 60.0) for number in range(len(endings))
    )
    made = record.create(folder, began_s, file, "ab", entries)
    for number, ending in enumerate(endings):
        record.keep_result(folder, Result(number, ending, (Attempt(began_s, began_s + 1, ending),), f"run{number}"))
    record.end(made.folder, began_s + 5)
    return record.read(made.folder)


def test_a_night_without_a_change_is_not_notified(tmp_path: Path) -> None:
    night(tmp_path, 1000, RIGHT, WRONG)
    assert notify.message(night(tmp_path, 2000, RIGHT, WRONG), tmp_path) is None


def test_a_change_is_notified_with_what_was_before(tmp_path: Path) -> None:
    night(tmp_path, 1000, RIGHT, RIGHT)
    night(tmp_path, 1500, WRONG, WRONG, file="other.yaml")
    found = notify.message(night(tmp_path, 2000, RIGHT, WRONG), tmp_path)
    assert found is not None
    assert found["subject"] == "harness, night 00000000000000002000: 1 identical, 1 differs"
    assert found["text"].splitlines()[1:] == ["newly wrong: run xavier net1: dense_3, vector 7 (before: identical)"]
    assert found["exit_code"] == 1
    assert found["changes"] == [
        {
            "kind": "newly wrong", "board": "xavier", "board_kind": "", "entry": "run xavier net1", "now": "differs",
            "before": "identical", "reason": "dense_3, vector 7",
        }
    ]  # fmt: skip
    repaired = notify.message(night(tmp_path, 3000, RIGHT, RIGHT), tmp_path)
    assert repaired is not None
    assert repaired["text"].splitlines()[1].startswith("repaired: run xavier net1")


def test_the_kind_of_the_board_is_stated(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"run{number}").mkdir()
        (tmp_path / f"run{number}" / "run.json").write_text(
            json.dumps(run_document("xavier", "acas_coc", kind="emulated"))
        )
    found = notify.message(night(tmp_path, 1000, RIGHT, WRONG), tmp_path)
    assert found is not None
    assert found["text"].splitlines()[1:] == ["newly wrong: run xavier net1 [emulated]: dense_3, vector 7"]
    assert found["changes"][0]["board_kind"] == "emulated"


def test_many_changes_are_counted(tmp_path: Path) -> None:
    found = notify.message(night(tmp_path, 1000, *[WRONG] * 25), tmp_path)
    assert found is not None
    assert len(found["changes"]) == 25
    assert found["text"].splitlines()[-1] == "and 5 more changes"


@contextmanager
def web(status: int) -> Iterator[tuple[str, list[bytes]]]:
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with served(server):
        yield f"http://127.0.0.1:{server.server_port}/hooks/secret", got


@contextmanager
def mail_server() -> Iterator[tuple[int, list[str]]]:
    got: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 ready\r\n")
            for line in iter(self.rfile.readline, b""):
                got.append(line.decode().rstrip())
                if line.upper().startswith(b"DATA"):
                    self.wfile.write(b"354 go ahead\r\n")
                    got.extend(text.decode().rstrip() for text in iter(self.rfile.readline, b".\r\n"))
                self.wfile.write(b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 ok\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    with served(server):
        yield server.server_address[1], got


@contextmanager
def served(server: socketserver.BaseServer) -> Iterator[None]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def test_a_webhook_gets_json(monkeypatch: pytest.MonkeyPatch) -> None:
    with web(200) as (address, got):
        assert notify.send(Notify(webhook=address), CONTENT) == []
        monkeypatch.setenv("HARNESS_WEBHOOK", address)
        assert notify.send(Notify(webhook="$HARNESS_WEBHOOK"), CONTENT) == []
    assert [json.loads(body) for body in got] == [CONTENT, CONTENT]


def test_an_e_mail_is_sent() -> None:
    with mail_server() as (port, got):
        email = Email.model_validate(
            {"to": ["a@lab", "b@lab"], "from": "harness@lab", "host": "127.0.0.1", "port": port}
        )
        assert notify.send(Notify(email=email), CONTENT) == []
    assert {"mail FROM:<harness@lab>", "rcpt TO:<a@lab>", "rcpt TO:<b@lab>", "Subject: harness: 1 differs"} <= {
        line.partition(" size=")[0] for line in got
    }
    assert "newly wrong: x" in got


def test_failures_are_returned_for_each_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    email = Email.model_validate({"to": ["a@lab"], "from": "harness@lab", "host": "127.0.0.1", "port": 1})
    with web(500) as (address, _):
        failed = notify.send(Notify(webhook=address, email=email), CONTENT)
    assert [line.partition(":")[0] for line in failed] == ["webhook", "e-mail"]
    monkeypatch.delenv("HARNESS_WEBHOOK", raising=False)
    [line] = notify.send(Notify(webhook="$HARNESS_WEBHOOK"), CONTENT)
    assert line.startswith("webhook: write an http or https address")


def test_a_receiver_is_shown_without_the_secret_of_its_address() -> None:
    email = Email.model_validate({"to": ["a@lab"], "from": "harness@lab", "host": "mail.lab"})
    wanted = Notify(webhook="https://chat.lab/hooks/secret", email=email)
    assert notify.receivers(wanted) == ["webhook chat.lab", "e-mail a@lab"]
    assert notify.receivers(Notify()) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"webhook": "file:///etc/passwd"}, "write an http or https address"),
        ({"email": {"to": [], "from": "harness@lab", "host": "mail.lab"}}, "at least 1 item"),
        ({"email": {"to": ["a@lab"], "from": "harness@lab"}}, "host"),
        ({"mail": {}}, "Extra inputs"),
    ],
)
def test_a_wrong_receiver_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Notify.model_validate(given)
