from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.boards import workspace
from harness.boards.image import KERNEL, PACKAGES, ArchiveEntry, Image, build, cpio
from harness.core import debian_packages
from harness.core.errors import ToolError
from harness.core.locking import exclusive

NOWHERE = "file:/nowhere/debian"  # apt tries an address on the network four times, for seven seconds

BUILD = """
import sys
from pathlib import Path
from harness.boards.image import build
image = build(Path(sys.argv[1]), b"host", b"user", lambda text: None)
print(image.kernel, image.initramfs)
"""


def _read_cpio(archive: bytes) -> Iterator[ArchiveEntry]:
    """What a reader of the newc format finds: 13 fields of 8 hexadecimal digits after the magic number."""
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, device, name_size = fields[1], fields[6], (fields[9], fields[10]), fields[11]
        name_end = at + 110 + name_size
        assert archive[name_end - 1] == 0
        name = archive[at + 110 : name_end - 1].decode()
        content = (name_end + 3) // 4 * 4
        at = (content + size + 3) // 4 * 4
        if name == "TRAILER!!!":
            assert at == len(archive)
            return
        yield ArchiveEntry(name, mode, archive[content : content + size], device)


@pytest.fixture(scope="session")
def fetched() -> Path:
    """The folder of the user's own cache where the packages are, so that they are downloaded once."""
    folder = workspace.cache_folder() / "guest"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive(folder / "lock"):
        debian_packages.fetch(PACKAGES, KERNEL, folder / "packages", print)
    return folder


@pytest.fixture(scope="module")
def folder(fetched: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the packages and no image, and no way to the network."""
    folder = tmp_path_factory.mktemp("guest")
    shutil.copytree(fetched / "packages", folder / "packages", copy_function=os.link)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(debian_packages.MIRROR, NOWHERE)
        yield folder


@pytest.fixture(scope="module")
def image(folder: Path) -> Image:
    """One that a process has built there."""
    return build(folder, b"the host key", b"the user's key", print)


def test_cpio_is_read_back_entry_by_entry() -> None:
    entries = [
        ArchiveEntry("bin", 0o40755),
        ArchiveEntry("bin/sh", 0o120777, b"busybox"),
        ArchiveEntry("dev/console", 0o20600, device=(5, 1)),
        *(ArchiveEntry("n" * size, 0o100644, bytes(range(size))) for size in range(1, 9)),  # every padding
        ArchiveEntry("empty", 0o100600),
    ]
    assert list(_read_cpio(b"".join(cpio(entries)))) == entries


def test_image_holds_what_the_guest_needs(image: Image) -> None:
    entries = {entry.name: entry for entry in _read_cpio(image.initramfs.read_bytes())}
    assert entries["etc/ssh/host_key"] == ArchiveEntry("etc/ssh/host_key", 0o100600, b"the host key")
    assert entries["root/.ssh/authorized_keys"].content == b"the user's key"
    assert entries["root"].mode == 0o40700
    assert {"init", "bin/busybox", "usr/sbin/sshd", "usr/bin/chrt", "lib/libc.so.6"} <= entries.keys()
    for name in ("bin/busybox", "usr/sbin/sshd", "lib/libcrypto.so.3"):
        assert entries[name].content[:5] == b"\x7fELF\x02"
        assert int.from_bytes(entries[name].content[18:20], "little") == 183  # EM_AARCH64
    assert image.kernel.read_bytes()[56:60] == b"ARM\x64"  # Documentation/arm64/booting: the image's magic number
    assert stat.S_IMODE(image.initramfs.stat().st_mode) == 0o600


@pytest.mark.campaign
def test_other_keys_make_another_image_the_same_do_not(folder: Path, image: Image) -> None:
    written_ns = image.initramfs.stat().st_mtime_ns
    assert build(folder, b"the host key", b"the user's key", print) == image
    assert image.initramfs.stat().st_mtime_ns == written_ns
    assert build(folder, b"the host key", b"another user's key", print) != image


@pytest.mark.campaign
def test_two_processes_build_at_once(folder: Path) -> None:
    command = [sys.executable, "-c", BUILD, str(folder)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0] == outputs[1]
    assert all(Path(path).stat().st_size > 10_000_000 for path in outputs[0].split())
    assert not (folder / "part").exists()


def test_packages_that_cannot_be_fetched_leave_nothing_and_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(debian_packages.MIRROR, NOWHERE)
    monkeypatch.setattr(debian_packages, "KEYRING", Path(__file__))
    with pytest.raises(ToolError, match="apt-get update failed") as caught:
        debian_packages.fetch(PACKAGES, KERNEL, tmp_path, print)
    assert debian_packages.MIRROR in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["part"]  # what the next attempt begins with removing


def test_a_machine_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(debian_packages.MIRROR, NOWHERE)
    monkeypatch.setattr(debian_packages, "KEYRING", Path(__file__))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="apt-get is not on this machine"):
        build(tmp_path / "guest", b"host", b"user", print)


def _apt(folder: Path, **files: str) -> Path:
    (folder / "sources.list.d").mkdir()
    for name, text in files.items():
        path = folder / "sources.list" if name == "main" else folder / "sources.list.d" / name.replace("_", ".")
        path.write_text(text)
    return folder


@pytest.fixture
def _own_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(debian_packages.MIRROR, raising=False)
    monkeypatch.delenv(debian_packages.SUITE, raising=False)


@pytest.mark.usefixtures("_own_sources")
def test_sources_are_debians_of_this_machine_for_arm64(tmp_path: Path) -> None:
    apt = _apt(
        tmp_path,
        debian_sources="# a comment\nTypes: deb deb-src\n# another\nURIs: https://mirror.test/debian\n"
        "Suites: bookworm bookworm-updates\nComponents: main contrib\nArchitectures: amd64\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
        "Types: deb\nURIs: https://mirror.test/debian\nSuites: sid\nComponents: main\nEnabled: no\n",
        vendor_sources="Types: deb\nURIs: https://vendor.test/debian\nSuites: bookworm\nComponents: main\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n debian-archive\n",
    )
    assert debian_packages.sources(apt) == (
        "Types: deb\nURIs: https://mirror.test/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\nArchitectures: arm64\n"
    )


@pytest.mark.usefixtures("_own_sources")
def test_sources_in_one_line_each(tmp_path: Path) -> None:
    apt = _apt(
        tmp_path,
        main="deb http://mirror.test/debian/ bookworm main contrib # near\n# deb http://mirror.test/debian sid main\n"
        "deb-src http://mirror.test/debian bookworm main\n",
        security_list="deb [arch=amd64 signed-by=/k/debian-archive-keyring.gpg] http://mirror.test/sec bookworm main\n",
        vendor_list="deb [signed-by=/k/vendor.gpg] http://vendor.test/debian bookworm main\n"
        "deb http://vendor.test/apt bookworm main\ndeb http://vendor.test/linux/debian bookworm stable\n",
    )
    assert debian_packages.sources(apt) == (
        "Types: deb\nURIs: http://mirror.test/debian/\nSuites: bookworm\nComponents: main\n"
        "Architectures: arm64\n\nTypes: deb\nURIs: http://mirror.test/sec\nSuites: bookworm\nComponents: main\n"
        "Signed-By: /k/debian-archive-keyring.gpg\nArchitectures: arm64\n"
    )


@pytest.mark.usefixtures("_own_sources")
def test_sources_of_another_encoding_or_without_an_address(tmp_path: Path) -> None:
    apt = _apt(tmp_path, vendor_sources="Types: deb\nSuites: bookworm\nComponents: main\n")
    (apt / "sources.list").write_bytes("# près d'ici\ndeb http://mirror.test/debian bookworm main\n".encode("latin-1"))
    assert debian_packages.sources(apt) == (
        "Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\nComponents: main\nArchitectures: arm64\n"
    )


@pytest.mark.usefixtures("_own_sources")
def test_another_distribution_needs_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = _apt(tmp_path, main="deb http://archive.test/ubuntu noble main universe\n")
    with pytest.raises(ToolError, match="does not use Debian's packages") as caught:
        debian_packages.sources(apt)
    assert "HARNESS_DEBIAN_MIRROR" in caught.value.hint
    keyring = tmp_path / "keyring.gpg"
    monkeypatch.setattr(debian_packages, "KEYRING", keyring)
    monkeypatch.setenv("HARNESS_DEBIAN_MIRROR", "https://mirror.test/debian")
    with pytest.raises(ToolError, match="cannot be verified") as caught:
        debian_packages.sources(apt)
    assert "debian-archive-keyring" in caught.value.hint
    keyring.touch()
    monkeypatch.setenv("HARNESS_DEBIAN_SUITE", "trixie")
    assert debian_packages.sources(apt) == (
        "Types: deb\nURIs: https://mirror.test/debian\nSuites: trixie\nComponents: main\n"
        f"Signed-By: {keyring}\nArchitectures: arm64\n"
    )
