"""A headless Chromium, spoken to through two pipes: what a page loads, what it complains about, how wide it is."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")


@dataclass(frozen=True)
class Seen:
    """A page as it was shown: `width` is that of its content in px, `problems` what the browser complained about."""

    requests: tuple[str, ...]
    problems: tuple[str, ...]
    width: float
    source: str
    picture: bytes


@dataclass
class Browser:
    """One page after the other."""

    reader: Any
    writer: Any
    session: str = ""
    count: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    def show(self, url: str, width: int, *, dark: bool = False, scripts: bool = False, height: int = 900) -> Seen:
        """Load a page on a screen of that width, a telephone's below 600."""
        self.events.clear()
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")
        metrics = self.call("Page.getLayoutMetrics")
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        source = self.call("DOM.getOuterHTML", nodeId=root)["outerHTML"]
        picture = self.call("Page.captureScreenshot")["data"]
        told = [event["params"] for event in self.events]
        return Seen(
            tuple(one["request"]["url"] for one in told if "request" in one),
            tuple(str(one) for one in told if "entry" in one or "exceptionDetails" in one or "errorText" in one),
            metrics["cssContentSize"]["width"],
            source,
            base64.b64decode(picture),
        )

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; what happens meanwhile is kept."""
        self.count += 1
        number = self.count
        message = {"id": number, "method": method, "params": parameters}
        self.writer.write(json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        self.writer.flush()
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result

    def wait(self, event: str) -> None:
        """Until that has happened."""
        while all(one["method"] != event for one in self.events):
            self._next()

    def _next(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self.reader.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        found: dict[str, Any] = json.loads(text)
        if "method" in found:
            self.events.append(found)
        return found


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser that has never been anywhere."""
    (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()
    command = ["chromium", *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"]

    def give() -> None:  # the browser reads from 3 and writes to 4
        spare = os.dup(their_output)
        os.dup2(their_input, 3)
        os.dup2(spare, 4)

    process = subprocess.Popen(
        command,
        preexec_fn=give,  # noqa: PLW1509 - two calls of the kernel and nothing else
        pass_fds=(3, 4),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(their_input)
    os.close(their_output)
    with os.fdopen(our_input, "rb") as reader, os.fdopen(our_output, "wb") as writer:
        found = Browser(reader, writer)
        try:
            target = found.call("Target.createTarget", url="about:blank")["targetId"]
            found.session = found.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for part in ("Page", "Network", "Log", "Runtime", "DOM"):
                found.call(f"{part}.enable")
            yield found
        finally:
            process.terminate()
            process.wait(60)
