from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import workspace
from harness.board import image
from harness.board.image import Entry, cpio
from harness.errors import ToolError

FOLDER = workspace.find(None, None).cache / "emulator" / "image"


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
    entries = {entry.name: entry for entry in _read(gzip.decompress(one.initramfs.read_bytes()))}
    one.initramfs.unlink()
    assert entries["etc/ssh/host_key"] == Entry("etc/ssh/host_key", 0o100600, b"host key")
    assert entries["root/.ssh/authorized_keys"].content == b"user key"
    assert entries["usr/sbin/sshd"].content[:5] == b"\x7fELF\x02"
    assert entries["lib/libcrypto.so.3"].mode == 0o100755
    assert len([name for name in entries if name.startswith("modules/")]) == len(image.MODULES)
    assert one.kernel.stat().st_size > 1_000_000


def test_packages_that_cannot_be_fetched_end_in_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DEBIAN_MIRROR", "http://127.0.0.1:1/debian")
    with pytest.raises(ToolError) as caught:
        image.build(tmp_path, b"", b"", print)
    assert "HARNESS_DEBIAN_MIRROR" in caught.value.hint
    assert not (tmp_path / "guest").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_no_root_rights_are_needed_to_read_the_guest() -> None:
    guest = FOLDER / "guest"
    done = subprocess.run(["find", str(guest), "!", "-user", str(os.getuid())], capture_output=True, check=True)
    assert done.stdout == b""
