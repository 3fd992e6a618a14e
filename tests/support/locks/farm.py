"""A laboratory of several hosts on loopback: labgrid's coordinator, two exporters, a place and a power switch each."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from harness.boards.profile import Labgrid, Profile
from tests.support.locks import ready_labgrid

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / "build" / "labgrid" / "bin"
PLACES = ("xavier", "kv260")
RESOURCES = """\
rack:
  NetworkPowerPort: {{model: rest, host: 'http://127.0.0.1:{port}/{{index}}', index: {index}}}
"""


@dataclass(frozen=True)
class Farm:
    """Where the coordinator listens, and what the power switches were told: (index, '0' or '1').

    `tools` are labgrid's programs, the same as in `TOOLS` but ready.
    """

    coordinator: str
    tools: Path
    switched: list[tuple[str, str]] = field(default_factory=list)

    def labgrid(self, place: str = "xavier") -> Labgrid:
        return Labgrid(place=place, coordinator=self.coordinator, client=str(self.tools / "labgrid-client"))

    def board(self, host: Profile, place: str = "xavier") -> Profile:
        """This machine as a board that is a place."""
        return host.model_copy(update={"labgrid": self.labgrid(place)})

    def command(self, *words: str) -> tuple[str, ...]:
        """As the kernel shows a call of the client."""
        client = self.tools / "labgrid-client"
        return (*client.read_text().splitlines()[0].removeprefix("#!").split(), str(client), *words)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = self.command("-x", self.coordinator, *words)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def client(self, *words: str) -> str:
        """What labgrid's client answers."""
        with self.start(*words) as process:
            assert process.stdout
            return process.stdout.read()

    def holder(self, place: str = "xavier") -> str:
        shown = self.client("-p", place, "show")
        return shown.partition("acquired: ")[2].split("\n")[0]

    def await_holder(self, wanted: str, place: str = "xavier") -> None:
        end_s = time.monotonic() + 60
        while (found := self.holder(place)) != wanted:
            assert time.monotonic() < end_s, f"{place} is held by {found}, not by {wanted}"


@contextlib.contextmanager
def farm(folder: Path) -> Iterator[Farm]:
    """Running, with both places free."""
    with contextlib.ExitStack() as stack:
        switched: list[tuple[str, str]] = []
        port = stack.enter_context(_switches(switched))
        address = f"127.0.0.1:{_free_port()}"
        tools = stack.enter_context(_ready(folder / "tools"))
        _start(stack, folder / "coordinator", tools / "labgrid-coordinator", "--listen", address)
        _await(address)
        for index, place in enumerate(PLACES):
            at = folder / place
            at.mkdir()
            (at / "exports.yaml").write_text(RESOURCES.format(port=port, index=index))
            name = ("--name", f"rack-{place}", "--hostname", "127.0.0.1", "--coordinator", address)
            _start(stack, at, tools / "labgrid-exporter", *name, "exports.yaml")
        running = Farm(address, tools, switched)
        for words in (["create"], ["add-match"]):
            calls = [
                running.start("-p", place, *words, *([f"rack-{place}/*/*"] if len(words[0]) > 6 else []))
                for place in PLACES
            ]
            assert [call.communicate()[0] for call in calls] == ["", ""]
        _await_exporters(running)
        yield running


@contextlib.contextmanager
def _ready(folder: Path) -> Iterator[Path]:
    """labgrid's programs, for a while."""
    folder.mkdir()
    command = [TOOLS / "python3", ready_labgrid.__file__, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield folder
        process.kill()


def _start(stack: contextlib.ExitStack, folder: Path, program: Path, *words: str) -> None:
    folder.mkdir(exist_ok=True)
    log = stack.enter_context((folder / "log").open("wb"))
    process = subprocess.Popen([program, *words], cwd=folder, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)


def _await(address: str) -> None:
    host, port = address.split(":")
    for _ in range(1200):
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"no coordinator at {address}")


def _await_exporters(running: Farm) -> None:
    end_s = time.monotonic() + 60
    while not all(f"rack-{place}" in running.client("resources") for place in PLACES):
        assert time.monotonic() < end_s, "the exporters do not appear"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def _switches(switched: list[tuple[str, str]]) -> Iterator[int]:
    """Power switches that write down what they are told."""

    class Switch(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            length = int(self.headers["Content-Length"])
            switched.append((self.path.strip("/"), self.rfile.read(length).decode()))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the library's signature
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Switch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
