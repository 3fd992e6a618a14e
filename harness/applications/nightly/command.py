"""`harness nightly`: many runs in one night: read the matrix, start or resume the night, show the results."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from rich.text import Text

from harness.applications.nightly import timer
from harness.boards.workspace import Workspace, write_whole
from harness.cli._options import as_json, parameters, pass_workspace
from harness.core import registry
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, EXIT_INFRASTRUCTURE, InfrastructureError, RequestError, ToolError
from harness.core.safe_io import clean
from harness.core.table import Table
from harness.core.text import duration, plural, retries

if TYPE_CHECKING:
    from harness.applications.nightly.campaign import Campaign, Holder
    from harness.applications.nightly.job_commands import Comparable
    from harness.applications.nightly.matrix import NightSpec, Taken
    from harness.applications.nightly.notify import Notify
    from harness.applications.nightly.process_pool import Children
    from harness.applications.nightly.schedule import Rules
    from harness.boards.profile import BoardProfiles
    from harness.runs.history.night_record import Action, Night


OURS = {"board", "model", "items", "plan", "resume", "against", "run-folder", "json"}
"""Options that have their own keys in an entry, or that the night sets."""


Commands: TypeAlias = "Mapping[Action, Taken]"


@click.command("nightly", epilog="Example: harness nightly --dry-run")
@click.argument("file", type=click.Path(path_type=Path), default="nightly.yaml")
@click.option("--new", is_flag=True, help="Start a new night, even if the last night of this file is unfinished.")
@click.option("--resume", is_flag=True, help="Resume an unfinished night; do nothing if there is none.")
@click.option("--dry-run", is_flag=True, help="Show all entries in their order without access to boards.")
@click.option("--junit", type=click.Path(path_type=Path), help="Also write the night's JUnit XML to this file.")
@click.option(
    "--install",
    metavar="TIME",
    help="Install a systemd timer that starts the night every day at this time, e.g. 22:00.",
)
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    file: Path,
    new: bool,
    resume: bool,
    dry_run: bool,
    junit: Path | None,
    install: str | None,
) -> int:
    """Run, prove and measure many models on many boards, as FILE defines; resume an interrupted night.

    Exit code: 0 all as expected, 1 an unexpected verdict, 2 the request is invalid, 3 an entry was inconclusive or was
    not run.
    """
    if sum([new, resume, dry_run, install is not None]) > 1:
        raise click.UsageError("give one of --new, --resume, --dry-run, --install")
    if junit and (dry_run or install is not None):
        raise click.UsageError("--junit needs a night that runs; each night also has a JUnit file in its folder")
    console, commands = Console.open(as_json=as_json), taken()
    if install is not None:
        return install_timer(file, install, commands, space, console)
    if dry_run:
        return show(file, commands, space, console)
    return nightly(file, commands, space, console, junit, new=new, only_resume=resume)


def taken() -> dict[Action, Taken]:
    """Return the options that an entry may give for each command."""
    from harness.cli import measure, prove, run

    case: click.Group = registry.command("case")
    check = case.get_command(click.Context(case), "check")
    assert check is not None  # noqa: S101 - the command of an entry `case`
    commands: dict[Action, click.Command]
    commands = {"run": run.command, "prove": prove.command, "measure": measure.command, "case": check}
    return {action: _taken(known) for action, known in commands.items()}


def _taken(known: click.Command) -> Taken:
    from harness.applications.nightly.matrix import Taken

    options = [option for option in known.params if isinstance(option, click.Option) and option.expose_value]
    mine = {name: option for option in options if (name := option.opts[-1].removeprefix("--")) not in OURS}
    flags = {name: tuple(option.secondary_opts) for name, option in mine.items() if option.is_flag}
    return Taken(frozenset(mine), flags, functools.partial(parameters, known))


def nightly(
    file: Path,
    commands: Commands,
    workspace: Workspace,
    console: Console,
    junit_file: Path | None,
    *,
    new: bool,
    only_resume: bool,
) -> int:
    """Run the night and return its exit code."""
    from harness.applications.nightly.lock import alone

    workspace, file = _absolute(workspace), file.absolute()
    if junit_file:
        _make_way(junit_file)
    night = None
    try:
        with _read(file, commands, workspace) as asked, alone(workspace.runs, console.note) as lock:
            night = _choose(asked.spec, workspace, console, new=new, only_resume=only_resume)
            ended = night and _carry_out(night, asked, workspace, console, lock)
            if ended:
                _notify(asked.spec.notify, ended, workspace, console)
    except OSError as error:
        kept = "the night is kept: fix the problem, then run the same command to resume it"
        hint = (
            kept
            if night
            else "no night was started: fix the permissions or free disk space, or choose another folder with --runs"
        )
        raise ToolError(f"this machine: {error}", hint) from error
    if night is None:
        console.note("there is no unfinished night to resume")
        console.document({"night": None, "exit_code": EXIT_DONE})
        return EXIT_DONE
    return EXIT_INFRASTRUCTURE if ended is None else _tell(ended, junit_file, console)


def _make_way(junit_file: Path) -> None:
    """Remove the JUnit file of a former night; raise RequestError if the file cannot be written."""
    try:
        junit_file.unlink(missing_ok=True)
    except OSError as error:
        raise RequestError(f"--junit {junit_file}: {error.strerror}", "give another path") from error
    if not junit_file.parent.is_dir():
        raise RequestError(f"--junit {junit_file}: there is no folder {junit_file.parent}", "create it first")


def _notify(settings: Notify, night: Night, workspace: Workspace, console: Console) -> None:
    """Send the notification about a night that changed something; a failure changes no exit code."""
    from harness.applications.nightly import notify

    if not (settings.webhook or settings.email) or (content := notify.message(night, workspace.runs)) is None:
        return
    failed = notify.send(settings, content)
    for line in failed:
        console.note(f"warning: no notification by {line}; the night itself is complete")
    if not failed:
        console.note(f"notified {', '.join(notify.receivers(settings))}")


def _tell(night: Night, junit_file: Path | None, console: Console) -> int:
    from harness.applications.nightly import summary

    console.show(*summary.show(night, summary.board_kinds(night)))
    console.document(summary.document(night))
    code = summary.exit_code(night)
    try:
        if junit_file:
            write_whole(junit_file, summary.junit(night).encode())
    except RequestError as error:  # the night itself is complete
        console.note(f"warning: {error.message}; the same is in {night.folder}")
        return code or EXIT_INFRASTRUCTURE
    return code


@dataclass(frozen=True)
class _Asked:
    """The parsed file and its lab."""

    spec: NightSpec
    profiles: BoardProfiles
    comparable: Comparable


@contextmanager
def _read(file: Path, commands: Commands, workspace: Workspace) -> Iterator[_Asked]:
    """Provide the checked file; in this context, relative paths start at its folder."""
    from harness import targets
    from harness.applications.nightly import checks, matrix

    if not file.parent.is_dir():
        raise RequestError(f"{file}: there is no such file", "name the file: harness nightly FILE")
    with chdir(file.parent):
        profiles = targets.load_boards(workspace.boards)
        spec = matrix.read(file, commands, checks.Checks(profiles, workspace))
        yield _Asked(spec, profiles, checks.comparer(profiles, workspace, commands))


def show(file: Path, commands: Commands, workspace: Workspace, console: Console) -> int:
    """Show all entries in the order in which they would run."""
    from harness.applications.nightly import schedule
    from harness.applications.nightly.previous_nights import Past

    workspace = _absolute(workspace)
    with _read(file.absolute(), commands, workspace) as asked:
        spec, places, local = asked.spec, _places(asked.profiles), _local(asked.profiles)
    fair = schedule.fair(spec.entries, Past.read(workspace.runs).finished_s(time.time()))
    order = sorted(fair, key=lambda entry: not (entry.action == "measure" and entry.board in local))  # it runs alone
    table = Table("turn", "entry", "expected", "limit")
    for turn, entry in enumerate(order, start=1):
        table.add_row(str(turn), Text(clean(entry.key)), entry.expect, duration(entry.limit_s))
    _show_notification(spec, workspace, console)
    boards = {entry.board: places[entry.board] for entry in order}
    until = f", nothing begins after {spec.until}" if spec.until else ""
    rules = f"at most {spec.parallel} at once, at most {retries(spec.retries)} of failed infrastructure{until}"
    console.show(table, Text(f"{plural(len(order), 'entry', 'entries')} on {plural(len(boards), 'board')}, {rules}"))
    for names in _same(boards):
        console.show(Text(f"{' and '.join(names)} are one machine: their entries run one after the other"))
    console.document({"order": [entry.key for entry in order], "boards": len(boards), "one": list(_same(boards))})
    return EXIT_DONE


def _show_notification(spec: NightSpec, workspace: Workspace, console: Console) -> None:
    """Show the notification about the last finished night of this file, and its receivers; nothing is sent."""
    from harness.applications.nightly import notify
    from harness.applications.nightly.previous_nights import Past

    if not (names := notify.receivers(spec.notify)):
        return
    console.note(f"after a night with changes, a notification is sent to {', '.join(names)}")
    nights = Past.read(workspace.runs).nights
    ended = [night for night in nights if night.ended_s is not None and _is_of(night, spec)]
    if ended:
        content = notify.message(ended[-1], workspace.runs)
        said = f"would be:\n{content['text']}" if content else "would not be sent: the night changed nothing"
        console.note(f"that about night {ended[-1].name} {said}")


def _same(places: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the names of boards that share a place."""
    for place in dict.fromkeys(places.values()):
        names = [name for name, other in places.items() if other == place]
        if len(names) > 1:
            yield names


def install_timer(file: Path, at: str, commands: Commands, workspace: Workspace, console: Console) -> int:
    """Install a systemd timer that starts a night every day at that time and resumes it after a reboot.

    The units are written in any case; ToolError if there is no systemd for users.
    """
    workspace, file = _absolute(workspace), file.absolute()
    with _read(file, commands, workspace):
        texts = timer.units(file, at, _harness(workspace), os.environ)
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    folder.mkdir(parents=True, exist_ok=True)
    _require_own(folder, file, texts)
    for unit, text in texts.items():
        write_whole(folder / unit, text.encode())
        console.show(Text(f"# {folder / unit}\n{text}"))
    name = timer.unit_name(file)
    for words in (["daemon-reload"], ["enable", "--now", f"{name}.timer"], ["enable", f"{name}-resume.service"]):
        _systemctl(words, workspace, file)
    console.note("to run it without a logged-in user: loginctl enable-linger")
    console.note(f"to see its next start: systemctl --user list-timers {name}.timer")
    day = timer.skipped(at, datetime.now().date())  # noqa: DTZ005 - local time
    if day:
        console.note(
            f"warning: on {day} the change to summer time skips {at}, so that night does not start; choose another hour"
        )
    console.document({"units": [str(folder / unit) for unit in texts], "at": at})
    return EXIT_DONE


def _require_own(folder: Path, file: Path, units: Iterable[str]) -> None:
    """Raise RequestError if a unit of this name starts the nights of another file, which would be replaced."""
    for unit in units:
        path = folder / unit
        if path.exists() and not timer.is_of(file, path.read_text(encoding="utf-8", errors="replace")):
            raise RequestError(
                f"{path} starts the nights of another file than {file}", "rename this file, or remove that unit first"
            )


def _systemctl(words: list[str], workspace: Workspace, file: Path) -> None:
    line = ["systemctl", "--user", *words]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
        said = " ".join(done.stderr.split()) if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if said:
        by_hand = shlex.join([*_harness(workspace), "nightly", str(file)])
        raise ToolError(
            f"the units are written, but systemd did not accept them: {' '.join(line)}: {said}",
            f"if systemd is available for users, repeat --install; otherwise start this command with cron: {by_hand}",
        )


def _absolute(workspace: Workspace) -> Workspace:
    """Return the workspace with absolute paths: commands run in another folder, and a timer starts in any."""
    return replace(workspace, boards=workspace.boards.absolute(), runs=workspace.runs.absolute())


def _harness(workspace: Workspace) -> list[str]:
    """Return the command that starts harness from any folder; -P keeps that folder off the module path."""
    lab = ["--lab", str(workspace.lab)] if workspace.lab else []
    places = [*lab, "--boards", str(workspace.boards), "--runs", str(workspace.runs)]
    return [sys.executable, "-P", "-m", "harness", *places]


def _choose(spec: NightSpec, workspace: Workspace, console: Console, *, new: bool, only_resume: bool) -> Night | None:
    """Choose the night to run: an unfinished one of the same file, or a new one; None if there is none to resume.

    Other unfinished nights are closed.
    """
    from harness.applications.nightly import summary
    from harness.applications.nightly.previous_nights import Past

    going_on = None
    for night in Past.read(workspace.runs).unfinished():
        stale = _why_not(night, spec, new=new)
        if stale:
            ended = _close(night, _last_s(night))
            console.note(
                f"night {night.name} is closed without its remaining entries: {stale}: {summary.counted(ended)}"
            )
            for line in summary.wrong(ended):
                console.note(line)
        elif _is_of(night, spec):
            going_on = night
    if going_on:
        done, total = len(going_on.results), len(going_on.entries)
        console.note(
            f"resuming night {going_on.name}: {done} of {total} entries are finished; --new starts a new night"
        )
        return going_on
    return None if only_resume else _begin(spec, workspace)


def _why_not(night: Night, spec: NightSpec, *, new: bool) -> str:
    """Return why an unfinished night cannot be resumed; empty if it can."""
    from harness.applications.nightly.previous_nights import KEPT_S

    if time.time() - night.began_s > KEPT_S:
        return "it is older than a day"
    if not _is_of(night, spec):
        return ""
    if new:
        return "--new"
    return "" if night.sha256 == spec.sha256 else f"{spec.file.name} was changed since"


def _is_of(night: Night, spec: NightSpec) -> bool:
    """Return whether the night was started from the same file, even under another path."""
    return Path(night.file).resolve() == spec.file.resolve()


def _begin(spec: NightSpec, workspace: Workspace) -> Night:
    from harness.runs.history import night_record as record
    from harness.runs.history.night_record import NIGHTS

    began_s = time.time()
    stem = f"{datetime.fromtimestamp(began_s, UTC):%Y%m%d-%H%M%S}"
    names = (stem if count == 1 else f"{stem}_{count}" for count in range(1, 1000))
    folder = next(path for path in (workspace.runs / NIGHTS / name for name in names) if not path.exists())
    return record.create(folder, began_s, str(spec.file), spec.sha256, spec.entries)


def _carry_out(night: Night, asked: _Asked, workspace: Workspace, console: Console, lock: int) -> Night | None:
    """Return the ended night; None if it was interrupted."""
    from harness.applications.nightly.campaign import resumed
    from harness.applications.nightly.job_commands import JobCommands
    from harness.applications.nightly.previous_nights import Past
    from harness.applications.nightly.process_pool import Children
    from harness.applications.nightly.progress import watch

    past = Past.read(workspace.runs)
    commands = JobCommands(workspace.runs, night.name, past, asked.comparable)
    children = Children(_harness(workspace), lock)
    with watch(console, len(night.entries), len(night.results)) as watcher:
        holder = _holder(asked.profiles, workspace)
        campaign = resumed(night, _rules(night, asked), commands, children, watcher, holder)
        if not _is_finished(campaign, children, console):
            return None
    return _close(night, time.time())


def _rules(night: Night, asked: _Asked) -> Rules:
    from harness.applications.nightly.schedule import Rules

    spec = asked.spec
    until_s = _next(spec.until, night.began_s) if spec.until else None
    return Rules(spec.parallel, spec.retries, until_s, spec.until, _local(asked.profiles), _places(asked.profiles))


def _local(profiles: BoardProfiles) -> frozenset[str]:
    """Return the boards that are this machine."""
    return frozenset(name for name, board in profiles.profiles.items() if board.local)


def _places(profiles: BoardProfiles) -> dict[str, str]:
    """Return the lock key of each board; boards on one machine share a key."""
    from harness.boards.locks import key_or_name

    return {name: key_or_name(board) for name, board in profiles.profiles.items()}


def _holder(profiles: BoardProfiles, workspace: Workspace) -> Holder:
    """Return a function that returns the holder of a board; empty if the locks cannot be read."""
    from harness.boards.locks import in_use

    def holder(name: str) -> str:
        board = profiles.board(name)
        with suppress(InfrastructureError):
            return in_use(board, workspace.locks(board))
        return ""

    return holder


def _next(time_of_day: str, after_s: float) -> float:
    """Return the next moment, in seconds since 1970, at which the clock of the lab shows that time of day."""
    began = datetime.fromtimestamp(after_s)  # noqa: DTZ006 - local time
    at = began.replace(hour=int(time_of_day[:2]), minute=int(time_of_day[3:]), second=0, microsecond=0)
    return (at if at > began else at + timedelta(days=1)).timestamp()


def _is_finished(campaign: Campaign, children: Children, console: Console) -> bool:
    """Run the night; return False if a signal stopped it, after the boards are restored."""
    from harness.boards.tuning.interruption import interruptible

    with interruptible(console.note) as interruption:
        try:
            interruption.release()
            campaign.carry_out()
        except KeyboardInterrupt:
            _stop(children, console)
            console.note("the night is kept: the same command resumes it, --new starts a new night")
            return False
        except BaseException:
            interruption.held = True
            _stop(children, console)
            raise
    return True


def _stop(children: Children, console: Console) -> None:
    from harness.applications.nightly.process_pool import GRACE_S

    if children.running:
        names = ", ".join(sorted(children.running))
        console.note(f"stopping; commands restore their boards, {GRACE_S:.0f} s at most: {names}")
    children.stop()


def _close(night: Night, ended_s: float) -> Night:
    """Close the night, also with unfinished entries; keep the results of interrupted runs."""
    from harness.applications.nightly import summary
    from harness.applications.nightly.campaign import abandoned
    from harness.runs.history import night_record as record

    for result in abandoned(record.read(night.folder), night.folder.parents[1]):
        record.keep_result(night.folder, result)
    ended = replace(record.read(night.folder), ended_s=ended_s)
    write_whole(night.folder / "junit.xml", summary.junit(ended).encode())
    record.end(night.folder, ended_s)
    return ended


def _last_s(night: Night) -> float:
    """Return the time of the last known event of a night, in seconds since 1970."""
    attempts = [one for ended in night.results.values() for one in ended.attempts]
    attempts += [one for begun in night.begun.values() for one in begun.attempts]
    return max([night.began_s, *(one.ended_s for one in attempts), *(one.checked_s for one in night.boards.values())])
