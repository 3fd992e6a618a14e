"""Debian's arm64 packages for emulated boards and cross compilation, fetched without root privileges.

apt works in its own root with an empty list of installed packages: it installs nothing and adds no foreign
architecture.  Mirror, keys and proxies are those of this machine's apt, so packages are verified as for this machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.core.errors import ToolError

MIRROR = "HARNESS_DEBIAN_MIRROR"
SUITE = "HARNESS_DEBIAN_SUITE"
DEFAULT_SUITE = "bookworm"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
APT = Path("/etc/apt")
LONGEST_S = 1800.0  # of one call, which may have to fetch 50 MB

# Read after this machine's settings, which may attach scripts to an update and prefer other versions.
SETTINGS = """\
APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Sandbox::User "";
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Dir::State "{root}/state";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Etc::sourcelist "{root}/debian.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""

# The Debian package of each tool that may be missing.
PACKAGES = {
    "gcc": "gcc g++ libc6-dev",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross",
    "arm-none-eabi-gcc": "gcc-arm-none-eabi binutils-arm-none-eabi",
    "qemu-system-aarch64": "qemu-system-arm",
    "ssh": "openssh-client",
}


@dataclass(frozen=True)
class Packages:
    """Package files, and the digest (SHA-256, hexadecimal) of their names and contents."""

    files: Sequence[Path]
    digest: str


@dataclass(frozen=True)
class _Apt:
    """apt in its own root; `purpose` names the packages in messages."""

    root: Path
    purpose: str

    def run(self, program: str, *arguments: str) -> str:
        """Run `program` in the download folder and return its output."""
        command = [program, f"-c={self.root / 'apt.conf'}", *arguments]
        try:
            return run_tool(command, cwd=self.root / "files")
        except ToolError as error:
            raise ToolError(
                f"cannot fetch {self.purpose}: {error.message}",
                "check that this machine reaches its Debian mirror (try: apt-get update); "
                f"{MIRROR}=URL selects another mirror, {SUITE} its release (default: {DEFAULT_SUITE})",
            ) from error


def fetch(wanted: Sequence[str], meta: str, folder: Path, notify: Callable[[str], None]) -> Packages:
    """Return the packages `wanted` with their libraries, and the dependencies of the metapackage `meta`.

    They are kept in `folder`: only the first call needs the network.  Not safe for concurrent processes.
    ToolError with a hint if they cannot be fetched.
    """

    def names(apt: _Apt) -> Sequence[str]:
        return _with_libraries(apt, wanted, meta)

    size = "arm64 kernel, OpenSSH, about 50 MB, once"
    return _kept((*wanted, meta), names, "the emulated boards' Linux", size, folder, notify)


def fetch_alone(
    wanted: Sequence[str], purpose: str, size: str, folder: Path, notify: Callable[[str], None]
) -> Packages:
    """Download the packages `wanted` without their dependencies, see `fetch`; `size` is shown to the user."""
    return _kept(wanted, lambda _: wanted, purpose, size, folder, notify)


def _kept(
    wanted: Sequence[str],
    names: Callable[[_Apt], Sequence[str]],
    purpose: str,
    size: str,
    folder: Path,
    notify: Callable[[str], None],
) -> Packages:
    recipe = hashlib.sha256(repr((*wanted, os.environ.get(SUITE))).encode()).hexdigest()[:16]
    kept = folder / recipe
    if not kept.exists():
        notify(f"fetching {purpose} ({size})")
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        _download(_Apt(part, purpose), names)
        (part / "files").rename(kept)
        shutil.rmtree(part)
    files = sorted(kept.glob("*.deb"))
    return Packages(files, (kept / "digest").read_text())


def _download(apt: _Apt, names: Callable[[_Apt], Sequence[str]]) -> None:
    """Fill the root's folder `files` with the packages and their digest."""
    for name in ("state/lists/partial", "cache/archives/partial", "files"):
        (apt.root / name).mkdir(parents=True)
    (apt.root / "status").touch()
    (apt.root / "debian.sources").write_text(sources())
    (apt.root / "apt.conf").write_text(SETTINGS.format(root=apt.root))
    apt.run("apt-get", "update")
    apt.run("apt-get", "download", *dict.fromkeys(names(apt)))
    digest = hashlib.sha256()
    for file in sorted((apt.root / "files").glob("*.deb")):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    (apt.root / "files" / "digest").write_text(digest.hexdigest())


def _with_libraries(apt: _Apt, wanted: Sequence[str], meta: str) -> Sequence[str]:
    simulated = apt.run("apt-get", "install", "--simulate", *wanted)
    needed = re.findall(r"^Inst (\S+)", simulated, re.MULTILINE)
    libraries = [name for name in needed if name.startswith(("lib", "zlib"))]
    return [*wanted, *libraries, *re.findall(r"Depends: (\S+)", apt.run("apt-cache", "depends", meta))]


def run_tool(command: Sequence[str], cwd: Path | None = None) -> str:
    """Run `command` and return its output; raise ToolError with its last output if it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
            cwd=cwd,
            env=os.environ | {"LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{command[0]} did not end within {LONGEST_S:g} s and was stopped") from error
    except FileNotFoundError as error:
        raise ToolError(
            f"{command[0]} is not on this machine",
            "packages are fetched and read by apt-get, apt-cache, dpkg-deb, readelf: install apt, dpkg and binutils",
        ) from error
    if done.returncode != 0:
        words = " ".join(argument for argument in command[:3] if not argument.startswith("-c="))
        raise ToolError(f"{words} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def sources(apt: Path = APT) -> str:
    """Return Debian's archives for arm64, in the format of apt's *.sources files.

    They are those of this machine's apt, or the mirror that the environment names.  ToolError if there is neither.
    """
    mirror = os.environ.get(MIRROR)
    entries = [_mirror(mirror)] if mirror else [entry for entry in _configured(apt) if _is_debian(entry)]
    if not entries:
        raise ToolError(
            "this machine's apt does not use Debian's packages, so arm64 packages cannot be fetched",
            f"set {MIRROR} to the URL of a Debian mirror (and {SUITE}, default: {DEFAULT_SUITE}); "
            "needs: sudo apt-get install debian-archive-keyring",
        )
    return "\n".join("".join(f"{key}: {value}\n" for key, value in _for_arm64(entry)) for entry in entries)


def _mirror(url: str) -> Mapping[str, str]:
    if not KEYRING.exists():
        raise ToolError(
            f"{KEYRING} is missing: packages cannot be verified", "sudo apt-get install debian-archive-keyring"
        )
    return {
        "URIs": url,
        "Suites": os.environ.get(SUITE, DEFAULT_SUITE),
        "Components": "main",
        "Signed-By": str(KEYRING),
    }


def _configured(apt: Path) -> Iterator[Mapping[str, str]]:
    parts = apt / "sources.list.d"
    for path in (apt / "sources.list", *sorted(parts.glob("*.list"))):
        if path.exists():
            yield from _one_line_entries(_text(path))
    for path in sorted(parts.glob("*.sources")):
        yield from _stanzas(_text(path))


def _text(path: Path) -> str:
    """Decode a file; comments may have any encoding."""
    return path.read_text(encoding="utf-8", errors="replace")


def _one_line_entries(text: str) -> Iterator[Mapping[str, str]]:
    """Yield entries such as `deb [signed-by=FILE] URL SUITE COMPONENT...`."""
    for options, url, suite, components in re.findall(
        r"^\s*deb[ \t]+(?:\[(.*?)\][ \t]+)?(\S+)[ \t]+(\S+)[ \t]+([^#\n]+)", text, re.MULTILINE
    ):
        entry = {"URIs": url, "Suites": suite, "Components": components.strip()}
        signed_by = re.search(r"signed-by=(\S+)", options)
        yield entry | ({"Signed-By": signed_by[1]} if signed_by else {})


def _stanzas(text: str) -> Iterator[Mapping[str, str]]:
    """Yield entries in paragraphs of `Key: value`, where indented lines continue a value."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for paragraph in re.split(r"\n\s*\n", lines):
        entry = {
            key.lower(): value.rstrip()
            for key, value in re.findall(r"^(\S+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        }
        if "deb" in entry.get("types", "").split() and entry.get("enabled", "yes") != "no":
            names = {"uris": "URIs", "suites": "Suites", "components": "Components", "signed-by": "Signed-By"}
            yield {name: entry[key] for key, name in names.items() if key in entry}


def _is_debian(entry: Mapping[str, str]) -> bool:
    """Return whether an entry is signed by Debian's keys or, without a key, has the path of a Debian mirror."""
    if "URIs" not in entry or "main" not in entry.get("Components", "").split():
        return False
    if "Signed-By" in entry:
        return entry["Signed-By"].startswith("/") and "debian-archive" in entry["Signed-By"]  # or else it is a key
    folders = {PurePosixPath(url).name.removesuffix(".list") for url in entry["URIs"].split()}
    return folders <= {"debian", "debian-security"}


def _for_arm64(entry: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return ({"Types": "deb"} | dict(entry) | {"Components": "main", "Architectures": "arm64"}).items()


def install_command(*tools: str) -> str:
    """Return the command that installs `tools` on Debian and Ubuntu."""
    packages = " ".join(PACKAGES.get(tool, tool) for tool in tools)
    return f"sudo apt-get install --no-install-recommends {packages}"
