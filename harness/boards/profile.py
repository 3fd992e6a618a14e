"""`boards.yaml` -> frozen, validated profiles.

`boards.local.yaml` next to it is merged over it, key by key; `HARNESS_<BOARD>_HOST=[user@]host[:port]` sets an address.
Every mistake is reported with file, line and the valid choices.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from harness.boards import ssh_config
from harness.core.errors import RequestError, unknown_name
from harness.core.strict_yaml import Source, wrong_value

SEMIHOSTING, EMULATED_PORT, SERIAL_PORT = "semihosting", "emulated serial port", "serial port"
"""Ways to a processor without an operating system."""
# Connection, timeouts and peaks: a run may be resumed with other values.  The address is not kept, because it names
# files of the user; the identity of the reached board is kept instead (harness/boards/identity.py).
NOT_SHAPING = ("address", "power", "labgrid", "boot_s", "timeout_s", "work_folder", "peak")

MEMORY_BUDGET_MIB = 512
LOCAL_FILE = "boards.local.yaml"
ANOTHER_FILE = "give the path of a boards.yaml: --boards FILE"

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
BoardName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
M = TypeVar("M", bound=BaseModel)


def _is_operator(name: str) -> str:
    from harness import operators  # with ONNX, which takes most of a second

    known = sorted({operator for _, operator in operators.by_onnx_name()})
    if name not in known:
        *others, last = map(repr, known)
        raise PydanticCustomError(
            "operator", "Input should be {choices}", {"choices": f"{', '.join(others)} or {last}"}
        )
    return name


Operator = Annotated[str, AfterValidator(_is_operator)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _is_host(text: str) -> str:
    """Require a name or an address alone: OpenSSH would look up `user@host` or `host:port` as the name of a host."""
    if re.search(r"[@/[]|^[^:]*:[^:]*$", text):  # an IPv6 address has several colons
        parts = split_address(text.removeprefix("ssh://").rstrip("/")) or {"host": "NAME", "port": 22, "user": "NAME"}
        form = ", ".join(f"{key}: {value}" for key, value in sorted(parts.items()))
        raise PydanticCustomError("host", "Input should be a host alone: write {form}", {"form": f"{{{form}}}"})
    return text


class Address(_Entry):
    """SSH address of a board, which may be reached through the host `jump`.

    `host` may be a name of ~/.ssh/config, which also sets the values that are None: see harness/boards/ssh_address.py.
    """

    host: Annotated[str, Field(min_length=1, pattern=r"^[^\s-]\S*$"), AfterValidator(_is_host)]
    port: int | None = Field(default=None, ge=1, le=65535)
    user: str | None = None
    key: str | None = None
    known_hosts: str | None = None
    jump: Address | None = None


class Emulator(_Entry):
    """The emulated board, used without an address."""

    cpu: str
    cores: int = Field(ge=1, le=64)
    memory_mib: int = Field(default=1024, ge=256)
    disk_mib: int = Field(default=512, ge=1)


class Region(_Entry):
    """Memory of a processor: its first address, and its size in KiB."""

    origin: int = Field(ge=0, lt=1 << 32)
    kib: int = Field(ge=1, le=4 << 20)

    @property
    def end(self) -> int:
        """Return the first address behind it."""
        return self.origin + (self.kib << 10)


Word = Annotated[int, Field(ge=0, lt=1 << 32)]
"""A number of 32 bits."""
RegisterWrite = Annotated[tuple[Annotated[int, Field(gt=0, lt=1 << 32)], Word], Field(strict=False)]
"""The address of a register, and the word that is written to it."""


class Serial(_Entry):
    """The serial port of a microcontroller, by which the program reaches its files.

    `uart` is the kind of port, `registers` its first address.  `setup` has pairs of an address and a word, which are
    written in this order to switch on clocks and pins; the processor and the port then have the frequency `clock_hz`.
    `interrupt` is the number of the port's interrupt: with it the processor sleeps while it waits.

    `port` is the port of this machine, or a URL of pySerial: with it the board is hardware, else qemu emulates it.
    `reset` is a command that resets the board, `flash` one that writes the file {program} into it.
    """

    uart: Literal["cmsdk", "stm32f4", "stm32f7", "lpuart"]
    registers: Word
    clock_hz: int = Field(ge=1_000_000, le=10**10)
    baud: int = Field(default=115200, ge=1200, le=10_000_000)
    interrupt: int | None = Field(default=None, ge=0, lt=480)
    setup: tuple[RegisterWrite, ...] = Field(default=(), strict=False)
    port: str | None = Field(default=None, min_length=1)
    flash: tuple[str, ...] = Field(default=(), strict=False)
    reset: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _is_complete(self) -> Serial:
        if self.port is not None and not self.reset:
            raise _inconsistent("a board at a port needs a command that resets it", "bare_metal", "serial", "reset")
        if self.port is not None and self.port.startswith("/dev/pts/"):
            reason = "a pseudo-terminal is no port of a board; without `port`, qemu emulates the board"
            raise _inconsistent(reason, "bare_metal", "serial", "port")
        if self.flash and not any("{program}" in word for word in self.flash):
            raise _inconsistent("the command does not name {program}", "bare_metal", "serial", "flash")
        return self


class BareMetal(_Entry):
    """A processor without an operating system, which qemu-system-arm emulates as `machine` and `cpu` in its words.

    `code` holds the program and its constants, `data` everything that it writes.  The stack is at the end of `data`: it
    has `stack_kib` besides the accumulators of a vector.  The program reaches its files over a `serial` port, or by Arm
    semihosting.  Only hardware has no `machine`.
    """

    machine: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.-]*$")
    cpu: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    code: Region
    data: Region
    stack_kib: int = Field(default=32, ge=4)
    serial: Serial | None = None

    @model_validator(mode="after")
    def _has_room(self) -> BareMetal:
        if self.code.origin < self.data.end and self.data.origin < self.code.end:
            raise _inconsistent("code and data overlap", "bare_metal", "data")
        if self.stack_kib >= self.data.kib:
            raise _inconsistent("the stack fills the data memory", "bare_metal", "stack_kib")
        return self

    @property
    def port(self) -> str | None:
        """Return the serial port of the hardware; None for an emulated processor."""
        return self.serial.port if self.serial else None

    def kept(self) -> dict[str, Any]:
        """Return the entries that affect a run; a missing `serial` is omitted, which earlier versions did not have."""
        way = {"port", "flash", "reset"}
        return self.model_dump(mode="json", exclude={"serial": way} if self.serial else {"serial"})

    @property
    def top(self) -> int:
        """Return the first address behind all memory, in whole MiB."""
        return -(-max(self.code.end, self.data.end) >> 20) << 20


class Toolchain(_Entry):
    """Compiler of the board's program.  `glibc` is the newest version that the board offers."""

    compiler: str = Field(min_length=1, pattern=r"^\s*[^\s-]")
    flags: tuple[str, ...] = Field(default=(), strict=False)
    static: bool = False
    glibc: str | None = Field(default=None, pattern=r"^\d+\.\d+$")


class Timing(_Entry):
    """Settings of the board during a measurement; a missing setting is not changed.

    `frequency_khz` is the lower and the upper bound of all cores.  `idle_states` and `turbo` are switched on or off;
    without idle states, a core waits in its shallowest state.  `interrupts_away` moves all movable interrupts to cores
    without an item.  `realtime_throttling` is the kernel's reserve of time that real-time programs do not get.  `fifo`,
    `lock_memory`, `dma_latency_us` (None: unchanged) and `warmup` (executions) are options of the board's program.
    `as_root` is the prefix of commands that need root privileges.
    """

    governor: str | None = Field(default=None, pattern=r"^[a-z_]{1,15}$")
    frequency_khz: int | None = Field(default=None, ge=1, le=100_000_000)
    turbo: bool | None = None
    idle_states: bool | None = None
    interrupts_away: bool = False
    realtime_throttling: bool | None = None
    fifo: int | None = Field(default=None, ge=1, le=99)
    lock_memory: bool = True
    dma_latency_us: int | None = Field(default=0, ge=0, le=1_000_000)
    warmup: int = Field(default=1000, ge=0, le=100_000_000)
    as_root: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), strict=False)


Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1, strict=False)]
"""A command of this machine: a program and its arguments, run without a shell."""


class Power(_Entry):
    """The board's power switch: a `command` that cycles it, or two with `off_s` seconds between them.

    Each ends within `timeout_s`.  (`off` and `on` as keys would be booleans in YAML.)
    """

    command: Words | None = None
    off_command: Words | None = None
    on_command: Words | None = None
    off_s: float = Field(default=5.0, ge=0, le=600, strict=False)
    timeout_s: float = Field(default=60.0, gt=0, le=3600, strict=False)

    @model_validator(mode="after")
    def _is_one_way(self) -> Power:
        given = (self.command is not None, self.off_command is not None, self.on_command is not None)
        if given not in {(True, False, False), (False, True, True)}:
            raise _inconsistent("give command, or off_command and on_command", "power")
        return self


class Labgrid(_Entry):
    """The place of a labgrid coordinator that represents the board, and labgrid's client on this machine."""

    place: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    coordinator: str | None = Field(default=None, pattern=r"^[A-Za-z0-9\[][^\s@/]*$")
    client: str = Field(default="labgrid-client", pattern=r"^[^\s-]\S*$")


class Peak(_Entry):
    """The peaks of a board, for the roofline of `harness profile`: of the arithmetic that its items use, all together.

    A multiply-add is two operations.  State what a data sheet or a benchmark says: nothing here measures it.
    """

    operations_per_s: float = Field(gt=0, strict=False, allow_inf_nan=False)
    bytes_per_s: float = Field(gt=0, strict=False, allow_inf_nan=False)


_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""")
_SHELL = re.compile(r"&&|\|\||[;&|<>`]|\$[\w({]")


def _has_words(line: str) -> str:
    """Require one command on the board, quoted as for a shell but run without one."""
    if "\n" in line.strip():
        raise PydanticCustomError("command", "Input should be one line: write a list with one command in each entry")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise PydanticCustomError("command", "{reason}", {"reason": f"{line!r}: {error}"}) from error
    if not words:
        raise PydanticCustomError("command", "an empty line is no command")
    if shell := _SHELL.search(_QUOTED.sub("", line)):
        advice = "no shell runs it: write one command in each entry, quote the character, or write sh -c '...'"
        raise PydanticCustomError("command", "{reason}", {"reason": f"{shell[0]!r} is for a shell, and {advice}"})
    return line


Line = Annotated[str, AfterValidator(_has_words)]


class ItemProfile(_Entry):
    """One processing element: its target, its core, and the operators that it computes unless `split` differs.

    Without `operators` it computes every layer that its target supports and that no other item claims by name.
    """

    target: str
    operators: Annotated[tuple[Operator, ...], Field(strict=False)] | None = None
    core: int | None = Field(default=None, ge=0)


def _words(given: Any) -> Any:
    """Convert text with commas, as `--split` takes it, to a list."""
    return given.split(",") if isinstance(given, str) else given


class Profile(_Entry):
    """A board: hardware, connection, toolchain and items.

    Sections of targets, which this package does not know, are kept unchanged: see `settings`.
    `block` is the largest default of the block size; `memory_budget_mib` bounds the buffers of activations.
    `timeout_s` limits the program's time per chunk, `boot_s` the time until the board answers after power-on.
    `work_folder` is the harness's folder on the board, by default in the user's home.  `stand_ins` is whether programs
    simulate its accelerators, by default those of an emulated board.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    name: BoardName
    soc: str
    cores: int = Field(ge=1)
    local: bool = False
    address: Address | None = None
    emulator: Emulator | None = None
    bare_metal: BareMetal | None = None
    toolchain: Toolchain
    stand_ins: bool | None = None
    items: dict[Name, ItemProfile] = Field(min_length=1)
    split: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(default=(), strict=False)
    sync: Literal["barrier", "flag"] = "barrier"
    block: int = Field(default=1000, ge=1, le=1_000_000)
    memory_budget_mib: int = Field(default=MEMORY_BUDGET_MIB, ge=1, le=2000)  # x86-64 reaches 2 GiB of static data
    work_folder: str | None = Field(default=None, pattern=r"^/[^\x00]+$")
    timeout_s: float = Field(default=300.0, gt=0, le=1_000_000, strict=False, allow_inf_nan=False)
    setup: tuple[Line, ...] = Field(default=(), strict=False)
    teardown: tuple[Line, ...] = Field(default=(), strict=False)
    timing: Timing = Field(default_factory=Timing)
    peak: Peak | None = None
    power: Power | None = None
    boot_s: float = Field(default=120.0, gt=0, le=3600, strict=False)
    labgrid: Labgrid | None = None
    time_source: Literal["CLOCK_MONOTONIC_RAW", "CLOCK_MONOTONIC", "CNTVCT", "SYSTICK"] = "CLOCK_MONOTONIC_RAW"

    @model_validator(mode="after")
    def _is_consistent(self) -> Profile:
        if unknown := _unknown_keys(self.model_extra or {}, None):
            raise _inconsistent(f"unknown key {unknown[0]!r}", unknown[0])
        _check_reachable(self)
        _check_items(self)
        return self

    @property
    def emulated(self) -> bool:
        """Return whether a run uses an emulated board, because the profile has no address."""
        if self.bare_metal is not None:
            return self.bare_metal.port is None
        return self.address is None and self.emulator is not None and not self.local

    @property
    def lacks_address(self) -> str:
        """Return how to give the board an address if nothing else leads to it; else empty."""
        if self.bare_metal is not None and not (self.bare_metal.machine or self.bare_metal.port):
            return f"write serial: {{port: ..., reset: [...]}} of its bare_metal into {LOCAL_FILE}"
        if self.local or self.address or self.emulated or self.bare_metal:
            return ""
        return (
            f"set {host_variable(self.name)}=[user@]host[:port], or write its address: {{host: ...}} into {LOCAL_FILE}"
        )

    @property
    def simulated(self) -> bool:
        """Return whether the board's accelerators are simulated by programs."""
        return self.emulated if self.stand_ins is None else self.stand_ins

    @property
    def reached_by(self) -> str:
        """Return the way to the board: `address`, `emulator`, `this machine`, or that to a processor."""
        if self.bare_metal is not None:
            way = SERIAL_PORT if self.bare_metal.port else EMULATED_PORT
            return way if self.bare_metal.serial else SEMIHOSTING
        return "this machine" if self.local else "emulator" if self.emulated else "address"

    def section(self, target: str) -> dict[str, Any]:
        """Return the unparsed section of a target; empty without one."""
        return dict((self.model_extra or {}).get(target) or {})

    def settings(self, target: str, model: type[M]) -> M:
        """Return the settings of a target; raise RequestError that names board, section, key and valid choices."""
        try:
            return model.model_validate(self.section(target))
        except ValidationError as error:
            raise _explain(self.name, error, [], (target,), model) from error

    def kept(self) -> dict[str, Any]:
        """Return the entries of the profile that affect a run, as JSON types; `restored` is the inverse.

        The default memory budget, and no `bare_metal`, are omitted: earlier versions had neither key.
        """
        default = {"memory_budget_mib"} if self.memory_budget_mib == MEMORY_BUDGET_MIB else set()
        default |= {"bare_metal"} if self.bare_metal is None else set()
        entry = self.model_dump(mode="json", exclude={*NOT_SHAPING, *default}) | {"reached_by": self.reached_by}
        if self.bare_metal is not None:
            entry["bare_metal"] = self.bare_metal.kept()
        return entry


def restored(kept: Mapping[str, Any]) -> Profile:
    """Return the profile of a value of `Profile.kept`, with a placeholder address; ValueError for other values."""
    entry = {key: value for key, value in kept.items() if key != "reached_by"}
    if kept["reached_by"] == "address":
        entry["address"] = {"host": "unknown"}
    elif kept["reached_by"] == SERIAL_PORT:
        port = {"port": "unknown", "reset": ["unknown"]}
        entry["bare_metal"] = entry["bare_metal"] | {"serial": entry["bare_metal"]["serial"] | port}
    profile = Profile.model_validate(entry)
    if profile.kept() != kept:
        raise ValueError("the profile is not one that this version of harness keeps")
    return profile


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differences between two values of `Profile.kept`, each as `key: old -> new`."""
    before, after = dict(_flat(old)), dict(_flat(new))
    texts = {key: (before.get(key, "none"), after.get(key, "none")) for key in {**before, **after}}
    return tuple(f"{key}: {was} -> {now}" for key, (was, now) in texts.items() if was != now)


def _flat(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the keys of all values, with the keys above them before a dot, and the values as JSON texts."""
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "none" if value is None else json.dumps(value, ensure_ascii=False)


def _check_reachable(profile: Profile) -> None:
    if profile.bare_metal is not None and (profile.local or profile.address or profile.emulator):
        reason = "bare_metal excludes local: true, address and emulator: its serial port or semihosting leads to it"
        raise _inconsistent(reason, "bare_metal")
    if (profile.time_source == "SYSTICK") != (profile.bare_metal is not None and profile.bare_metal.serial is not None):
        raise _inconsistent("SYSTICK is the clock of processors with a serial port, and of no others", "time_source")
    if profile.emulated and profile.stand_ins is False:
        raise _inconsistent("an emulated board has no accelerators but stand-ins", "stand_ins")
    if profile.local and profile.address is not None:
        raise _inconsistent("local: true and an address exclude each other", "address")


def _check_items(profile: Profile) -> None:
    owner: dict[str, str] = {}
    for name, item in profile.items.items():
        if item.core is not None and item.core >= profile.cores:
            reason = f"there is no core {item.core}, the board has cores 0 to {profile.cores - 1}"
            raise _inconsistent(reason, "items", name, "core")
        for operator in item.operators or ():
            if operator in owner:
                raise _inconsistent(f"items {owner[operator]} and {name} both claim {operator}", "items", name)
            owner[operator] = name


def _inconsistent(reason: str, *keys: str) -> PydanticCustomError:
    """Return the error for entries that contradict each other; `keys` is the path of the entry to change."""
    return PydanticCustomError("inconsistent", "{reason}", {"reason": reason, "keys": keys})


@dataclass(frozen=True)
class BoardProfiles:
    """Profiles of all boards by name."""

    profiles: Mapping[str, Profile]

    def board(self, name: str) -> Profile:
        """Return the profile of a board that is to be used; RequestError for an unknown name or without an address."""
        profile = self.named(name)
        if remedy := profile.lacks_address:
            raise RequestError(f"board {name} has no address", remedy)
        return profile

    def named(self, name: str) -> Profile:
        """Return the profile of `name`; RequestError with the nearest names for an unknown name."""
        if name not in self.profiles:
            raise unknown_name("board", name, self.profiles)
        return self.profiles[name]


Sections = Mapping[str, Callable[[], type[BaseModel]]]
"""Functions that load the type of a target's settings, by the name of the target."""


def load(path: Path, environment: Mapping[str, str] = os.environ, sections: Sections | None = None) -> BoardProfiles:
    """Read the laboratory from `path` and its `.local.yaml` neighbour; RequestError names file and line.

    Without `sections`, those of targets are not checked here but by `Profile.settings`.
    The addresses are looked up in the current SSH configuration from here on.
    """
    ssh_config.options.cache_clear()
    sources = [_read(path)]
    local = path.with_suffix(".local.yaml")
    if local.exists():
        sources.append(_read(local))
    merged: dict[str, Any] = {}
    for source in sources:
        merged = _merge(merged, source.document)
    if not merged:
        raise RequestError(f"{path}: no board is defined", "harness init LAB creates a file with examples")
    return BoardProfiles(
        {name: _profile(name, entry, sources, environment, sections) for name, entry in merged.items()}
    )


def _read(path: Path) -> Source:
    """Return a file of boards; RequestError if it is none."""
    source = Source.read(path, ANOTHER_FILE, ANOTHER_FILE)
    document = source.document or {}
    if not isinstance(document, dict) or not all(isinstance(entry, dict) for entry in document.values()):
        raise RequestError(f"{path}: expected a mapping of board names to profiles")
    return replace(source, document=document)


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merge(base[key], value) if both else value
    return merged


def _profile(
    name: Any, entry: dict[str, Any], sources: list[Source], environment: Mapping[str, str], sections: Sections | None
) -> Profile:
    given = environment.get(host_variable(str(name)))
    if given:
        address = entry.get("address")
        entry = entry | {"address": (address if isinstance(address, dict) else {}) | _parse_address(str(name), given)}
    if unknown := _unknown_keys(entry, sections):
        raise _unknown_key(str(name), unknown, sources, [*Profile.model_fields, *(sections or {})])
    model: type[BaseModel] = Profile
    keys: tuple[str, ...] = ()
    try:
        profile = Profile.model_validate({"name": name} | entry)
        for target in profile.model_extra or {}:
            if sections and profile.model_extra and profile.model_extra[target] is not None:
                keys, model = (target,), sections[target]()
                model.model_validate(profile.model_extra[target])
    except ValidationError as error:
        raise _explain(str(name), error, sources, keys, model) from error
    return profile


def _unknown_keys(entry: Mapping[Any, Any], sections: Sections | None) -> tuple[str, ...]:
    """Return the first key that is neither of a profile nor a target's section, which is a mapping or taken back."""
    for key, value in entry.items():
        is_section = (value is None or isinstance(value, dict)) if sections is None else key in sections
        if key not in Profile.model_fields and not is_section:
            return (str(key),)
    return ()


def _unknown_key(name: str, keys: tuple[str, ...], sources: list[Source], choices: Sequence[str]) -> RequestError:
    hint = unknown_name("key", keys[-1], [choice for choice in choices if choice != "name"]).hint
    return RequestError(f"{_locate((name, *keys), sources)}board {name}: unknown key {'.'.join(keys)!r}", hint)


def host_variable(board: str) -> str:
    """Return the environment variable of a board's address, with underscores for hyphens."""
    return f"HARNESS_{board.upper().replace('-', '_')}_HOST"


def split_address(text: str) -> dict[str, Any] | None:
    """Return the host of `[user@]host[:port]`, and user and port if they are given; None if `text` is no address.

    An IPv6 address is written in brackets, as in `[2001:db8::7]:22`.
    """
    host = r"(?P<host>[^@:\s[-][^@:\s]*|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[^\]\s]+)?\])"
    match = re.fullmatch(rf"(?:(?P<user>[^@\s]+)@)?{host}(?::(?P<port>[0-9]{{1,5}}))?", text)
    if not match or not 1 <= int(match["port"] or 22) <= 65535:
        return None
    found = {key: value.strip("[]") for key, value in match.groupdict().items() if value is not None}
    return found | {"port": int(found["port"])} if "port" in found else found


def _parse_address(name: str, text: str) -> dict[str, Any]:
    found = split_address(text)
    if found is None:
        raise RequestError(f"{host_variable(name)}={text!r} is not an address", "the form is [user@]host[:port]")
    return found


def _explain(
    name: str, error: ValidationError, sources: list[Source], at: tuple[str, ...], model: type[BaseModel]
) -> RequestError:
    """Return the error for one finding: file:line, board and key; its hint lists the valid values.

    `model` describes the entry at the keys `at`.  An unknown key comes first: it is often the misspelt name of one that
    is missing.
    """
    finding = min(error.errors(), key=lambda finding: finding["type"] != "extra_forbidden")
    keys = (*at, *_keys(finding))
    place, key = _locate((name, *keys), sources), ".".join(keys)
    if finding["type"] == "extra_forbidden":
        return _unknown_key(name, keys, sources, _choices(keys[:-1], model))
    if finding["type"] == "missing":
        hint = _required(name, sources) if len(keys) == 1 else ""
        return RequestError(f"{place}board {name}: {key!r} is missing", hint)
    if finding["type"] == "inconsistent":
        return RequestError(f"{place}board {name}: {finding['msg']}")
    return RequestError(f"{place}board {name}: {wrong_value(finding, key)}")


def _required(name: str, sources: list[Source]) -> str:
    """Return the advice for a board without a required key; its name may be misspelt in the second file."""
    known = sources[0].document if sources and name not in sources[0].document else ()
    near = difflib.get_close_matches(name, map(str, known), n=1)
    guess = f"did you mean board {near[0]} of {sources[0].path.name}? " if near else ""
    required = sorted(key for key, field in Profile.model_fields.items() if field.is_required() and key != "name")
    return f"{guess}a board needs {', '.join(required)}: see docs/add-a-board.md"


def _keys(finding: ErrorDetails) -> tuple[str, ...]:
    if finding["type"] == "inconsistent":
        return tuple(finding["ctx"]["keys"])
    return tuple(str(part) for part in finding["loc"] if part != "[key]")


def _locate(keys: tuple[str, ...], sources: list[Source]) -> str:
    """Return `file:line: ` of the longest known prefix of `keys`, in the last file with it; "" without files."""
    found = max(reversed(sources), key=lambda source: len(source.known(*keys)), default=None)
    return f"{found.place(*keys)}: " if found else ""


def _choices(keys: tuple[str, ...], model: type[BaseModel]) -> Sequence[str]:
    """Return the keys that the entry at `keys` may have; `model` is that of the outermost."""
    entries: dict[str, type[BaseModel]] = {
        "address": Address,
        "jump": Address,
        "emulator": Emulator,
        "bare_metal": BareMetal,
        "serial": Serial,
        "code": Region,
        "data": Region,
        "toolchain": Toolchain,
        "timing": Timing,
        "peak": Peak,
        "power": Power,
        "labgrid": Labgrid,
        "items": ItemProfile,
    }
    return [*next((entries[key] for key in reversed(keys) if key in entries), model).model_fields]
