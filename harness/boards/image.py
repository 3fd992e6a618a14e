"""The guest of the emulated boards: Debian's arm64 cloud kernel and an initramfs with busybox and OpenSSH.

OpenSSH, as it moves files two to three times as fast as dropbear under emulation: its AES uses the processor's
instructions for it, which qemu knows.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.debian_packages import Packages, fetch, run_tool
from harness.core.errors import ToolError
from harness.core.locking import exclusive

KERNEL = "linux-image-cloud-arm64"
PACKAGES = ("busybox-static", "openssh-server", "util-linux")
PROGRAMS = ("busybox", "sshd", "chrt")
LOADER = "ld-linux-aarch64.so.1"
# A program linked for a glibc before 2.34, as a board's own is, looks for the parts that it was made of then.
GLIBC = (LOADER, "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1")

# In the order in which they must be loaded.
MODULES = (
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_mmio",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
    "drivers/char/hw_random/virtio-rng",
)

FOLDERS: Mapping[str, int] = {
    **dict.fromkeys(("bin", "board", "dev", "etc", "etc/ssh", "lib", "modules", "proc", "run", "run/sshd"), 0o755),
    **dict.fromkeys(("sys", "tmp", "usr", "usr/bin", "usr/lib", "usr/lib/openssh", "usr/sbin"), 0o755),
    **dict.fromkeys(("root", "root/.ssh"), 0o700),
}

# The kernel's command line brings harness.name and harness.disk, the size of /board.  The kernel has set the clock.
# The SSH server stays on the core that has the network's interrupts: to wake another core for each packet costs more
# than the packet, most of all where the emulated cores are more than the real ones.
INIT = b"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
for word in $(cat /proc/cmdline); do
    case $word in
        harness.name=*) hostname "${word#*=}" ;;
        harness.disk=*) mount -t tmpfs -o "size=${word#*=},mode=0700" board /board ;;
    esac
done
for module in /modules/*.ko; do insmod "$module"; done
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
while :; do taskset 1 /usr/sbin/sshd -D -e -r; sleep 1; done
"""

# The user's shell: what the SSH server starts may use all cores.
SESSION = b"""#!/bin/sh
exec taskset ffffffffffffffff /bin/sh "$@"
"""

# Under emulation this cipher and MAC take 3/4 of the time of AES-GCM.
SSHD = b"""HostKey /etc/ssh/host_key
Ciphers aes128-ctr
MACs hmac-sha2-256
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
MaxSessions 100
MaxStartups 100
UsePAM no
UseDNS no
PidFile none
"""

CONFIGURATION: Mapping[str, bytes] = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/session\nsshd:x:101:101::/run/sshd:/bin/false\n",
    "etc/group": b"root:x:0:\n",
    "etc/nsswitch.conf": b"passwd: files\n",
}


@dataclass(frozen=True)
class Image:
    """A bootable guest."""

    kernel: Path
    initramfs: Path


@dataclass(frozen=True)
class ArchiveEntry:
    """One entry of a cpio archive; `content` is a link's target or a file's bytes, `device` major and minor number."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def build(folder: Path, host_key: bytes, user_key: bytes, notify: Callable[[str], None]) -> Image:
    """Return the image with this private host key and this authorised public key, built in `folder` if it is not there.

    Its name is the hash of all that goes in: packages, keys and this file.  `notify` hears of what takes time.
    ToolError if the packages cannot be had.  Several processes may call it at once.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive(folder / "lock"):
        packages = fetch(PACKAGES, KERNEL, folder / "packages", notify)
        recipe = (packages.digest.encode(), host_key, user_key, Path(__file__).read_bytes())
        image = folder / hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]
        if not image.exists():
            _build(packages, host_key, user_key, image)
    return Image(image / "kernel", image / "initramfs")


def _build(packages: Packages, host_key: bytes, user_key: bytes, image: Path) -> None:
    part = image.with_name("part")
    shutil.rmtree(part, ignore_errors=True)
    tree = part / "tree"
    for package in packages.files:
        tree.mkdir(parents=True, exist_ok=True)
        run_tool(["dpkg-deb", "-x", str(package), str(tree)])
    archive = b"".join(cpio(_entries(tree, host_key, user_key)))
    (part / "initramfs").touch(mode=0o600)  # it holds the host key
    (part / "initramfs").write_bytes(archive)
    _one(tree, "boot/vmlinuz-*").rename(part / "kernel")
    shutil.rmtree(tree)
    part.rename(image)


def cpio(entries: Iterable[ArchiveEntry]) -> Iterator[bytes]:
    """Pack the entries into an archive in cpio's `newc` format, which the kernel unpacks as its initramfs."""
    for inode, entry in enumerate([*entries, ArchiveEntry("TRAILER!!!", 0)], start=1):
        name = entry.name.encode() + b"\0"
        fields = (inode, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        for part in (head, entry.content):
            yield part + b"\0" * (-len(part) % 4)


def _entries(tree: Path, host_key: bytes, user_key: bytes) -> list[ArchiveEntry]:
    programs = _programs(tree)
    executable = {
        "init": INIT,
        "bin/session": SESSION,
        **{name: path.read_bytes() for name, path in programs.items()},
        **{f"lib/{path.name}": path.read_bytes() for path in _libraries(tree, programs.values())},
    }
    readable = {**CONFIGURATION, "etc/ssh/sshd_config": _sshd_config(programs), **_modules(tree)}
    private = {"etc/ssh/host_key": host_key, "root/.ssh/authorized_keys": user_key}
    return [
        *(ArchiveEntry(name, 0o40000 | mode) for name, mode in sorted(FOLDERS.items())),
        ArchiveEntry("bin/sh", 0o120777, b"busybox"),
        ArchiveEntry("dev/console", 0o20600, device=(5, 1)),
        *(ArchiveEntry(name, 0o100755, content) for name, content in executable.items()),
        *(ArchiveEntry(name, 0o100644, content) for name, content in readable.items()),
        *(ArchiveEntry(name, 0o100600, content) for name, content in private.items()),
    ]


def _programs(tree: Path) -> dict[str, Path]:
    """Return the programs by their names in the guest; since OpenSSH 9.8 its server is split into several."""
    paths = [_one(tree, f"**/*bin/{name}") for name in PROGRAMS]
    helpers = sorted(tree.glob("usr/lib/openssh/sshd-*"))
    merged = {path: str(path.relative_to(tree)) for path in [*paths, *helpers]}
    return {
        "bin/busybox" if path.name == "busybox" else re.sub("^bin", "usr/bin", at): path for path, at in merged.items()
    }


def _sshd_config(programs: Mapping[str, Path]) -> bytes:
    """Return sshd's configuration, without penalties per address: all users have one address here."""
    split = any(name.startswith("usr/lib/openssh/") for name in programs)
    return SSHD + (b"PerSourcePenalties no\n" if split else b"")


def _modules(tree: Path) -> dict[str, bytes]:
    kernel = _one(tree, "**/lib/modules/*/kernel")
    built_in = _one(kernel.parent, "modules.builtin").read_text().split()
    paths = [_one(kernel, f"{module}.ko*") for module in MODULES if f"kernel/{module}.ko" not in built_in]
    return {
        f"modules/{order:02}.ko": lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        for order, path in enumerate(paths)
    }


def _libraries(tree: Path, programs: Iterable[Path]) -> list[Path]:
    """Return the shared libraries that the programs need, directly or indirectly, in the order found."""
    found = {name: _one(tree, f"**/{name}") for name in GLIBC}
    todo = list(programs)
    while todo:
        for name in _needed(todo.pop()) - found.keys():
            found[name] = _one(tree, f"**/aarch64-linux-gnu/{name}")
            todo.append(found[name])
    return sorted(found.values())


def _needed(program: Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", run_tool(["readelf", "-d", str(program)])))


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise ToolError(
            f"the packages of the emulated boards' Linux hold no {pattern}", "Debian 12 and 13 are known to work"
        )
    return found[-1]
