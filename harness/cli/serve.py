"""`harness serve`: a local web server for the page of the lab, which is updated when runs or nights change.

The server answers only this machine, only GET and HEAD, and only under its own names.  Otherwise a foreign page in the
browser could read the lab through a host name that resolves to this machine (DNS rebinding).
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from harness.boards.workspace import Workspace
from harness.cli._options import pass_workspace
from harness.core.console import Console
from harness.core.errors import HarnessError, RequestError

HERE = "127.0.0.1"
NAMES = ("localhost", HERE)
NIGHTS = 30
REFRESH_S = 10
REST_S = 2.0  # minimum time between two reads of the run folders
TYPES = {".html": "text/html; charset=utf-8", ".xml": "text/xml; charset=utf-8", ".csv": "text/csv; charset=utf-8"}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@click.command("serve", epilog="Example: harness serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port on localhost; 0 selects a free port.",
)
@pass_workspace
def command(space: Workspace, /, port: int) -> None:
    """Serve the web page of the lab at http://localhost:8000; it is updated while a night runs."""
    serve(port, space, Console.open(as_json=False))


def serve(port: int, workspace: Workspace, console: Console) -> None:
    """Serve until interrupted; RequestError for a port that is in use or not allowed."""
    with tempfile.TemporaryDirectory(prefix="harness-site-") as folder:
        live = Live(Path(folder) / "site", workspace, console)
        live.refresh()
        with _listening(port, live) as server:
            console.note(f"web page of the lab: http://localhost:{server.server_port}/ (Ctrl-C ends it)")
            with suppress(KeyboardInterrupt):
                server.serve_forever(poll_interval=0.2)
    console.note("stopped")


@contextmanager
def _listening(port: int, live: Live) -> Iterator[ThreadingHTTPServer]:
    try:
        server = ThreadingHTTPServer((HERE, port), partial(Handler, live))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "is in use" if taken else f"cannot be used: {error.strerror}"
        advice = f"give another one, e.g. harness serve --port {port + 1 if port < 65535 else 8001}; 0 finds a free one"
        raise RequestError(f"port {port} {why}", advice) from error
    server.daemon_threads = True
    with server:
        yield server


class Live:
    """The site in its own folder, updated at most every REST_S seconds."""

    def __init__(self, folder: Path, workspace: Workspace, console: Console) -> None:
        self.folder = folder
        self._workspace = workspace
        self._console = console
        self._lock = threading.Lock()
        self._seen: object = None
        self._looked_s = float("-inf")

    def refresh(self) -> None:
        """Update the site if anything has changed and the last update is more than REST_S seconds ago."""
        if not self._lock.acquire(blocking=self._seen is None):
            return  # another thread updates it; the current files are complete
        try:
            if time.monotonic() - self._looked_s >= REST_S:
                self._look()
                self._looked_s = time.monotonic()
        finally:
            self._lock.release()

    def _look(self) -> None:
        """Update the site; after a failure print a note and keep the former site."""
        from harness.cli.report import gather
        from harness.report import site

        try:
            lab = gather(NIGHTS, self._workspace)
            if lab != self._seen:
                site.build(self.folder, lab, refresh_s=REFRESH_S)
                self._seen = lab
        except HarnessError as error:
            self._console.note(f"warning: the site was not updated: {error.message}")


class Handler(BaseHTTPRequestHandler):
    """An HTTP handler that sends files of the site."""

    server_version = "harness"
    sys_version = ""
    timeout = 20  # seconds without data before a connection is closed

    def __init__(self, live: Live, *arguments: object) -> None:
        self._live = live
        super().__init__(*arguments)  # type: ignore[arg-type] # as http.server gives them

    def do_GET(self) -> None:
        """Send a file."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of a file."""
        self._answer(with_body=False)

    def log_message(self, *_told: object) -> None:
        """Discard the server's log messages."""

    def _answer(self, *, with_body: bool) -> None:
        if not self._is_ours():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server answers only http://localhost")
            return
        parts = _parts(self.path)
        if parts is not None and parts[-1].endswith(".html"):
            self._live.refresh()
        content = None if parts is None else read_inside(self._live.folder, parts)
        if parts is None or content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", TYPES[Path(parts[-1]).suffix])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def _is_ours(self) -> bool:
        """Return whether the Host header is one of this server's own names."""
        given = self.headers.get_all("Host", [])
        return len(given) == 1 and given[0].lower() in {f"{name}:{self._port}" for name in NAMES}

    @property
    def _port(self) -> int:
        return int(self.connection.getsockname()[1])

    def end_headers(self) -> None:
        """Add the headers that isolate the page."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()


def _parts(target: str) -> tuple[str, ...] | None:
    """Return the path components of a file of the site; None for an invalid path."""
    path = unquote(urlsplit(target).path)
    names = tuple(filter(None, path.split("/"))) or ("index.html",)
    plain = all(not name.startswith(".") and "\0" not in name for name in names)
    return names if plain and Path(names[-1]).suffix in TYPES else None


def read_inside(folder: Path, parts: tuple[str, ...]) -> bytes | None:
    """Return the content of a file below `folder`; None if there is no such file.

    Each component is opened relative to its parent folder, and links are not followed.
    """
    opened = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for name in parts[:-1]:
            opened.append(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened[-1]))
        opened.append(os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened[-1]))
        with os.fdopen(os.dup(opened[-1]), "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except (OSError, ValueError):
        return None
    finally:
        for one in opened:
            os.close(one)
