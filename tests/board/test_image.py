from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import workspace
from harness.board import image, packages
from harness.board.image import Entry, cpio
from harness.errors import ToolError

FOLDER = workspace.find(None, None).cache / "guest"


def _read(archive: bytes) -> Iterator[Entry]:
    """A reader of newc archives, written from the format's description."""
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name_at = at + 110
        name = archive[name_at : name_at + fields[11] - 1].decode()
        data_at = (name_at + fields[11] + 3) // 4 * 4
        if name == "TRAILER!!!":
            return
        yield Entry(name, fields[1], archive[data_at : data_at + fields[6]], (fields[9], fields[10]))
        at = (data_at + fields[6] + 3) // 4 * 4


def test_an_archive_is_read_back_as_it_was_written() -> None:
    entries = [
        Entry("dev", 0o40755),
        Entry("dev/console", 0o20600, device=(5, 1)),
        Entry("bin/sh", 0o120777, b"busybox"),
        *(Entry(f"f{'x' * length}", 0o100644, bytes(range(length))) for length in range(9)),
    ]
    assert list(_read(b"".join(cpio(entries)))) == entries


def test_the_image_holds_what_the_guest_needs_and_two_builders_do_not_disturb_each_other() -> None:
    def build(_: int) -> image.Image:
        return image.build(FOLDER, b"host key", b"user key", print)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(build, range(2))
    assert one == other
    entries = {entry.name: entry for entry in _read(one.initramfs.read_bytes())}
    assert one.kernel.stat().st_size > 1_000_000
    shutil.rmtree(one.initramfs.parent)
    assert entries["etc/ssh/host_key"] == Entry("etc/ssh/host_key", 0o100600, b"host key")
    assert entries["root/.ssh/authorized_keys"].content == b"user key"
    assert entries["usr/sbin/sshd"].content[:5] == b"\x7fELF\x02"
    assert entries["lib/libcrypto.so.3"].mode == 0o100755
    assert len([name for name in entries if name.startswith("modules/")]) == len(image.MODULES)


def test_packages_that_cannot_be_fetched_end_in_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DEBIAN_MIRROR", "http://127.0.0.1:1/debian")
    with pytest.raises(ToolError) as caught:
        image.build(tmp_path, b"", b"", print)
    assert "HARNESS_DEBIAN_MIRROR" in caught.value.hint
    assert not list(tmp_path.rglob("*.deb"))


def test_a_machine_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="apt-get is not on this machine"):
        image.build(tmp_path / "image", b"", b"", print)


def test_the_guest_belongs_to_who_built_it() -> None:
    """No root rights were needed for it, and nobody else can read the host key in it."""
    done = subprocess.run(["find", str(FOLDER), "!", "-user", str(os.getuid())], capture_output=True, check=True)
    assert done.stdout == b""
    assert all(path.stat().st_mode & 0o077 == 0 for path in FOLDER.glob("*/initramfs"))


def test_sources_of_this_machine_that_are_not_debians_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://example.org/debian old main\n"
        "deb [arch=amd64 signed-by=/keys/debian-archive-keyring.gpg] http://example.org/debian bookworm main contrib\n"
        "deb-src http://example.org/debian bookworm main\n"
        "deb [signed-by=/keys/vendor.gpg] http://vendor.example/apt stable main\n"
    )
    (tmp_path / "sources.list.d" / "x.sources").write_text(
        "Types: deb\nURIs: http://example.org/debian-security\nSuites: bookworm-security\nComponents: main\n"
        "Signed-By: /keys/debian-archive-keyring.gpg\n\nEnabled: no\nTypes: deb\nURIs: http://example.org/debian\n"
        "Suites: sid\nComponents: main\n"
    )
    stanzas = packages.sources(tmp_path).split("\n\n")
    assert len(stanzas) == 2
    assert "Suites: bookworm\n" in stanzas[0]
    assert "URIs: http://example.org/debian-security" in stanzas[1]
    assert all("Architectures: arm64" in stanza and "contrib" not in stanza for stanza in stanzas)


def test_a_machine_whose_apt_is_not_debians_is_told_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://archive.example/ubuntu noble main\n")
    with pytest.raises(ToolError, match="does not use Debian's packages") as caught:
        packages.sources(tmp_path)
    assert "HARNESS_DEBIAN_MIRROR" in caught.value.hint
