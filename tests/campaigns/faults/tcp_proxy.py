"""The way to a board: a TCP link of this machine that can be cut, slowed down, silenced and mended."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Self

LOOPBACK = "127.0.0.1"
PIECE_BYTES = 1 << 13


class Way:
    """Forwards every connection to its `port` to the port `target`, which may change, as that of a board that boots.

    A silent way forwards nothing and closes nothing, as a cable that was pulled; what is silenced stays so.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._server = socket.create_server((LOOPBACK, 0))
        self.port: int = self._server.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._over = threading.Event()
        self.mend()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.cut()
        self._server.close()

    def mend(self) -> None:
        """New connections are as they should be."""
        self._silent, self._budget, self._pause_s, self._silences = threading.Event(), None, 0.0, False

    def slow(self, pause_s: float) -> None:
        """Every piece takes so long in either direction."""
        self._pause_s = pause_s

    def silence(self) -> None:
        """Nothing comes through any more, and nobody is told."""
        self._silent.set()

    def cut(self) -> None:
        """End all connections.  A close alone sends nothing while another thread waits in `recv`."""
        pairs, self._pairs = self._pairs, []
        for end in (end for pair in pairs for end in pair):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def fail_after(self, count: int, *, silently: bool = False) -> None:
        """Cut, or silence, when so many more bytes have passed, in both directions together."""
        self._silences = silently
        self._budget = count

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                with suppress(OSError):
                    self._join(near)

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection((LOOPBACK, self.target))
        except OSError:
            near.close()
            raise
        self._pairs.append((near, far))
        for source, sink in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._forward, args=(source, sink, self._silent), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, silent: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE_BYTES):
                self._spend(len(data))
                if silent.is_set():
                    self._over.wait()
                time.sleep(self._pause_s)
                sink.sendall(data)
        if not silent.is_set():
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)  # also where the source was reset: its process has ended

    def _spend(self, count: int) -> None:
        if self._budget is None:
            return
        self._budget -= count
        if self._budget <= 0:
            self._budget = None
            (self.silence if self._silences else self.cut)()
