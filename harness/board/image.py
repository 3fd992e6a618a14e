"""The guest of the emulated boards: Debian's arm64 cloud kernel and an initramfs with busybox and OpenSSH.

Packages come from the sources that this machine's apt uses, through an apt root of our own: no root rights, no
foreign architecture, nothing installed.  HARNESS_DEBIAN_MIRROR names a mirror where this machine is not Debian.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ToolError

KERNEL_METAPACKAGE = "linux-image-cloud-arm64"
PACKAGES = ("busybox-static", "openssh-server")
PROGRAMS = {"bin/busybox": "bin/busybox", "usr/sbin/sshd": "usr/sbin/sshd"}
LOADER = "ld-linux-aarch64.so.1"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# In the order in which they must be loaded.
MODULES = (
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_mmio.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "drivers/char/hw_random/virtio-rng.ko",
)

FOLDERS = (
    "bin", "board", "dev", "etc", "lib", "modules", "proc", "root", "root/.ssh", "run", "run/sshd", "sys", "tmp",
    "usr", "usr/sbin", "var", "var/empty",
)  # fmt: skip

# The kernel's command line brings harness.name, harness.disk (size of /board) and harness.time (now, in seconds).
INIT = b"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
for word in $(cat /proc/cmdline); do
    case $word in
        harness.name=*) hostname "${word#*=}" ;;
        harness.disk=*) mount -t tmpfs -o "size=${word#*=}" board /board ;;
        harness.time=*) date -s "@${word#*=}" >/dev/null ;;
    esac
done
for module in /modules/*.ko; do insmod "$module"; done
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
chmod 700 /root /root/.ssh
/usr/sbin/sshd -E /dev/console
while :; do sleep 1000; done
"""

CONFIGURATION: Mapping[str, bytes] = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nsshd:x:101:101::/run/sshd:/bin/false\n",
    "etc/group": b"root:x:0:\n",
    "etc/nsswitch.conf": b"passwd: files\n",
    "etc/ssh/sshd_config": b"HostKey /etc/ssh/host_key\nPermitRootLogin prohibit-password\n"
    b"PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\nPidFile none\n",
}


@dataclass(frozen=True)
class Image:
    """A bootable guest."""

    kernel: Path
    initramfs: Path


@dataclass(frozen=True)
class Entry:
    """One entry of a cpio archive; `content` is a link's target or a file's bytes."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def build(folder: Path, host_key: bytes, user_key: bytes, notify: Callable[[str], None]) -> Image:
    """The image with this private host key and this authorised public key, built in `folder` if it is not there.

    ToolError if the packages cannot be fetched.  Several processes may call it at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / "lock"):
        guest = _packages(folder, notify)
        entries = _entries(guest, host_key, user_key)
        archive = b"".join(cpio(entries))
        initramfs = folder / f"initramfs-{hashlib.sha256(archive).hexdigest()[:16]}.cpio.gz"
        if not initramfs.exists():
            temporary = initramfs.with_suffix(".part")
            temporary.write_bytes(gzip.compress(archive, 1, mtime=0))
            temporary.replace(initramfs)
    return Image(_one(guest, "boot/vmlinuz-*"), initramfs)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise ToolError(f"the guest's packages hold no {pattern}", f"remove {folder} and try again")
    return found[-1]


def cpio(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The entries as a newc archive, which the kernel unpacks."""
    for inode, entry in enumerate([*entries, Entry("TRAILER!!!", 0)], start=1):
        name = entry.name.encode() + b"\0"
        fields = (inode, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        for part in (head, entry.content):
            yield part + b"\0" * (-len(part) % 4)


def _entries(guest: Path, host_key: bytes, user_key: bytes) -> list[Entry]:
    files = {
        "init": (0o755, INIT),
        "etc/ssh/host_key": (0o600, host_key),
        "root/.ssh/authorized_keys": (0o600, user_key),
        **{name: (0o644, content) for name, content in CONFIGURATION.items()},
        **{name: (0o755, (guest / source).read_bytes()) for name, source in PROGRAMS.items()},
        **{f"lib/{path.name}": (0o755, path.read_bytes()) for path in _libraries(guest)},
        **{f"modules/{i:02}.ko": (0o644, path.read_bytes()) for i, path in enumerate(_modules(guest))},
    }
    folders = sorted({*FOLDERS, "etc/ssh"})
    return [
        *(Entry(folder, 0o40755) for folder in folders),
        Entry("bin/sh", 0o120777, b"busybox"),
        Entry("dev/console", 0o20600, device=(5, 1)),
        *(Entry(name, 0o100000 | mode, content) for name, (mode, content) in files.items()),
    ]


def _modules(guest: Path) -> list[Path]:
    kernel = _one(guest, "lib/modules/*/kernel")
    return [kernel / module for module in MODULES]


def _libraries(guest: Path) -> list[Path]:
    """The shared libraries that the programs need, and those that these need."""
    known = {path.name: path for path in guest.glob("**/aarch64-linux-gnu/*.so*")}
    found, wanted = {LOADER}, [LOADER]
    todo = [guest / source for source in PROGRAMS.values()]
    while todo:
        for name in _needed(todo.pop()):
            if name not in found:
                found.add(name)
                wanted.append(name)
                todo.append(known[name])
    return [known[name] for name in wanted]


def _needed(program: Path) -> list[str]:
    listed = subprocess.run(["readelf", "-d", str(program)], capture_output=True, text=True, check=False)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", listed.stdout)


def _packages(folder: Path, notify: Callable[[str], None]) -> Path:
    """The folder into which the guest's packages are unpacked."""
    guest = folder / "guest"
    if guest.exists():
        return guest
    notify("fetching the emulated boards' guest (about 50 MB, once)")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        work = Path(temporary)
        options = _apt_options(work)
        _apt(options, "apt-get", "update")
        kernel = re.findall(r"Depends: (linux-image-\S+)", _apt(options, "apt-cache", "depends", KERNEL_METAPACKAGE))
        _apt(options, "apt-get", "install", "--download-only", "--yes", "--no-install-recommends", *PACKAGES)
        _apt(options, "apt-get", "download", *kernel, cwd=work / "cache" / "archives")
        for package in sorted((work / "cache" / "archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(work / "guest")], check=True)
        shutil.rmtree(work / "guest" / "usr" / "share", ignore_errors=True)
        (work / "guest").replace(guest)
    return guest


def _apt_options(work: Path) -> list[str]:
    """An apt root of our own in `work`; keys, proxies and sources stay this machine's."""
    for folder in ("state/lists/partial", "cache/archives/partial", "guest"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Dir::State": work / "state",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
    }
    mirror = os.environ.get("HARNESS_DEBIAN_MIRROR")
    if mirror:
        suite = os.environ.get("HARNESS_DEBIAN_SUITE", "bookworm")
        (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n")
        settings |= {"Dir::Etc::sourcelist": work / "sources.list", "Dir::Etc::sourceparts": "/dev/null"}
    return [f"-o{key}={value}" for key, value in settings.items()]


def _apt(options: list[str], program: str, *arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run([program, *options, *arguments], capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode != 0:
        raise ToolError(
            f"{program} {arguments[0]} for the emulated board's packages failed: {done.stderr.strip()[-500:]}",
            "check this machine's access to Debian's packages; where apt's sources are not Debian's, set "
            "HARNESS_DEBIAN_MIRROR to a Debian mirror and install debian-archive-keyring",
        )
    return done.stdout
