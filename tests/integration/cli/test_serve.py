from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.applications.nightly.lock import alone
from harness.cli.serve import read_inside
from harness.core.outcome import Ending, Outcome
from harness.runs.history import night_record as record
from harness.runs.history.night_record import Attempt, Result
from tests.support.cli.command import User
from tests.support.history import laboratory
from tests.support.history.laboratory import Board

WRONG = Ending(Outcome.DIFFERS, "7 of 9 activations differ", "")


@contextmanager
def serving(user: User, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = user.start("serve", "--port", "0", TMPDIR=str(temporary))
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://localhost:([0-9]+)/", line)
        assert found, line + process.stderr.read()
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate(timeout=20)


def ask(port: int, path: str = "/", method: str = "GET", host: str | None = None) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers={"Host": f"localhost:{port}" if host is None else host})
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def raw(port: int, request: str) -> bytes:
    """All that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request.encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[tuple[User, int]]:
    folder = tmp_path_factory.mktemp("served")
    boards = (Board("xavier"), Board("kv260", "emulated"))
    laboratory.make(folder / "runs", boards, 2, models=("acas_wl", "acas_wr"), running=True)
    (folder / "tmp").mkdir()
    user = User(folder, cache)
    with alone(folder / "runs", print), serving(user, folder / "tmp") as (_, port):
        yield user, port


def test_the_page_is_there_under_its_own_names(served: tuple[User, int]) -> None:
    _, port = served
    status, headers, content = ask(port)
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"This night" in content
    assert b'<meta http-equiv="refresh" content="10">' in content
    assert ask(port, "/index.html?x=1", host=f"127.0.0.1:{port}")[2] == content
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_report_is_there(served: tuple[User, int]) -> None:
    user, port = served
    [run, *_] = sorted((user.folder / "runs").glob("*_xavier_acas_wl"))
    assert ask(port, f"/runs/{run.name}/report.html")[2] == (run / "report.html").read_bytes()
    assert ask(port, f"/runs/{run.name}/junit.xml")[1]["content-type"] == "text/xml; charset=utf-8"
    assert ask(port, f"/runs/{run.name}/run.json")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "localhost", "", "localhost:{}.evil.example"])
def test_another_name_is_refused(served: tuple[User, int], host: str) -> None:
    _, port = served
    status, _, content = ask(port, host=host.format(port))
    assert status == 421
    assert b"night" not in content


def test_two_names_at_once_are_refused(served: tuple[User, int]) -> None:
    _, port = served
    found = raw(port, f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\nHost: evil.example\r\n\r\n")
    assert found.startswith(b"HTTP/1.0 421")


@pytest.mark.parametrize(
    "path",
    ["/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/site.json", "/.lock", "/nights", "/nights/", "/x.html",
     "//etc/passwd.html", "/runs/%00.html", "/index.html/x.html", "/nights/..%2findex.html", "/\\index.html"],
)  # fmt: skip
def test_nothing_else_is_there(served: tuple[User, int], path: str) -> None:
    _, port = served
    assert ask(port, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_possible(served: tuple[User, int], method: str) -> None:
    _, port = served
    assert ask(port, method=method)[0] == 501


def test_head_has_no_body(served: tuple[User, int]) -> None:
    _, port = served
    status, headers, content = ask(port, method="HEAD")
    assert (status, content) == (200, b"")
    assert int(headers["content-length"]) == len(ask(port)[2])
    assert raw(port, f"HEAD / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n").endswith(b"\r\n\r\n")


def test_only_this_machine_is_served(served: tuple[User, int]) -> None:
    _, port = served
    table = Path("/proc/net/tcp").read_text()
    assert [line.split()[1] for line in table.splitlines() if f":{port:04X} 00000000" in line] == [
        f"0100007F:{port:04X}"
    ]


def test_the_page_is_as_the_night_is_now(served: tuple[User, int]) -> None:
    user, port = served
    assert b"7 of 9 activations" not in ask(port)[2]
    night = record.folders(user.folder / "runs")[-1]
    record.keep_result(night, Result(3, WRONG, (Attempt(1.0, 2.0, WRONG),)))
    while b"7 of 9 activations" not in ask(port)[2]:  # it is made anew meanwhile, or the test's time is over
        time.sleep(0.2)


def test_no_link_is_followed_on_the_way_to_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.html").write_text("password")
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.html").symlink_to(secret / "a.html")
    (site / "folder").symlink_to(secret)
    os.mkfifo(site / "pipe.html")
    (site / "b.html").write_text("mine")
    assert read_inside(site, ("b.html",)) == b"mine"
    for parts in (("a.html",), ("folder", "a.html"), ("pipe.html",), ("..", "secret", "b.html"), ("b.html", "x.html")):
        assert read_inside(site, parts) is None


def test_a_port_in_use_is_told_with_what_to_do(served: tuple[User, int]) -> None:
    user, port = served
    ended = user.harness("serve", "--port", str(port))
    assert ended.code == 2
    assert f"port {port} is in use" in ended.err
    assert f"harness serve --port {port + 1}" in ended.err


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.campaign)])
def test_it_ends_cleanly(tmp_path: Path, cache: Path, how: signal.Signals) -> None:
    (tmp_path / "tmp").mkdir()
    with serving(User(tmp_path, cache), tmp_path / "tmp") as (process, port):
        assert b"There is no night yet" in ask(port)[2]
        process.send_signal(how)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "stopped\n")
    assert list((tmp_path / "tmp").iterdir()) == []
