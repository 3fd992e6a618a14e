"""`harness boards`: holder, purpose and end of the lock of each board, and whether the board is healthy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._group import Group
from harness.cli._options import Duration, as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, EXIT_INFRASTRUCTURE, InfrastructureError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.boards.locks.health import Health
    from harness.boards.locks.quarantine import Quarantine
    from harness.boards.locks.ticket import Now, Ticket
    from harness.boards.profile import Address, Profile
    from harness.boards.session import Board


AT_ONCE = 8
BANNER_S = 3.0


@click.group("boards", cls=Group)
def command() -> None:
    """List, lock, check and power-cycle boards."""


@command.command("list", epilog="Example: harness boards list")
@as_json
@pass_workspace
def boards_list(space: Workspace, /, as_json: bool) -> None:
    """List the boards: address, holder, waiting users and quarantine."""
    show(space, Console.open(as_json=as_json))


@command.command("lock", epilog="Example: harness boards lock xavier --for 2h")
@click.argument("board", shell_complete=_completion.boards)
@click.option("--for", "lease", type=Duration(), default="1h", show_default=True, help="Duration of the lock: 30m, 8h.")
@click.option("--purpose", default="by hand", show_default=True, help="Purpose, shown to other users.")
@click.option("--wait", type=Duration(), help="Time to wait for a free board: 5m; default: no waiting.")
@as_json
@pass_workspace
def boards_lock(space: Workspace, /, as_json: bool, board: str, lease: float, purpose: str, wait: float | None) -> None:
    """Reserve a board for yourself; your own commands can still use it."""
    lock_by_hand(board, lease, purpose, wait or 0.0, space, Console.open(as_json=as_json))


@command.command("unlock", epilog="Example: harness boards unlock xavier")
@click.argument("board", shell_complete=_completion.boards)
@click.option(
    "--force", is_flag=True, help="Also remove the lock of another user; commands that run on the board are stopped."
)
@as_json
@pass_workspace
def boards_unlock(space: Workspace, /, as_json: bool, board: str, force: bool) -> None:
    """Release a board."""
    unlock(board, space, Console.open(as_json=as_json), force=force)


@command.command("check", epilog="Example: harness boards check xavier")
@click.argument("names", metavar="[BOARD]...", nargs=-1, shell_complete=_completion.boards)
@click.option(
    "--quarantine",
    is_flag=True,
    help="Quarantine a board that fails a check; remove the quarantine if all checks pass.",
)
@click.option(
    "--remove-older",
    metavar="DAYS",
    type=click.IntRange(0, 36500),
    help="Remove older folders of runs and bundles from boards that are not in use.",
)
@as_json
@pass_workspace
def boards_check(
    space: Workspace, /, as_json: bool, names: tuple[str, ...], quarantine: bool, remove_older: int | None
) -> int:
    """Check boards: reachability, tools, free disk and memory, clock.  Without a name, check all boards.

    Exit code: 0 all boards pass, 2 the request is invalid, 3 a board fails.
    """
    console = Console.open(as_json=as_json)
    return check(names, space, console, quarantine_failing=quarantine, remove_older_days=remove_older)


@command.command("cycle", epilog="Example: harness boards cycle xavier")
@click.argument("board", shell_complete=_completion.boards)
@as_json
@pass_workspace
def boards_cycle(space: Workspace, /, as_json: bool, board: str) -> None:
    """Switch a board off and on with the power switch in its profile, and wait until it answers."""
    cycle(board, space, Console.open(as_json=as_json))


@dataclass(frozen=True)
class _State:
    """State of a board, read without access to the board: its holders and the waiting tickets, both in order."""

    board: Profile
    having: tuple[Ticket, ...]
    waiting: tuple[Ticket, ...]
    quarantine: Quarantine | None
    now: Now

    @classmethod
    def read(cls, board: Profile, workspace: Workspace) -> _State:
        from harness.boards.locks import quarantine, queue_of
        from harness.boards.locks.ticket import Now, having, waiting

        with queue_of(board, workspace.locks(board)) as queue:
            now, tickets = Now.read(), queue.tickets()
            has, waits = having(tickets, now), waiting(tickets, now)
            return cls(board, tuple(has), tuple(waits), quarantine.find(queue), now)


def show(workspace: Workspace, console: Console) -> None:
    """List all boards without access to them."""
    from harness.boards import profile as profiles

    boards = profiles.load(workspace.boards).profiles.values()
    states = [_State.read(board, workspace) for board in boards]
    console.show(_table(states), *_quarantines(states))
    console.document({"boards": [_state_document(state) for state in states]})


def _table(states: Sequence[_State]) -> Table:
    """Return the table without columns that are empty for all boards."""
    headings = ("board", "where", "who has it", "for", "since", "until", "waiting")
    rows = [
        (Text(state.board.name), Text(_where(state.board)), *_holders(state), Text(_queue(state.waiting)))
        for state in states
    ]
    told = [at for at in range(len(headings)) if any(row[at] for row in rows)]
    table = Table(box=None)
    for at in told:
        table.add_column(headings[at], overflow="fold", no_wrap=at == 0)
    for row in rows:
        table.add_row(*(row[at] for at in told))
    return table


def _quarantines(states: Sequence[_State]) -> Iterator[Text]:
    for state in states:
        if state.quarantine:
            yield Text(f"board {state.board.name} is {state.quarantine}", style="bold red")


def _where(board: Profile) -> str:
    emulated = "emulated, bare metal" if board.bare_metal else "emulated"
    if board.bare_metal and board.bare_metal.port:
        return f"serial port {board.bare_metal.port}"
    emulated = f"no address: {board.lacks_address}" if board.lacks_address else emulated
    where = "this machine" if board.local else _place(board.address) if board.address else emulated
    return f"{where}, place {board.labgrid.place}" if board.labgrid else where


def _place(address: Address) -> str:
    from harness.boards.ssh_address import resolve

    return resolve(address).place


def _holders(state: _State) -> list[Text]:
    """Return a line for the user who has locked the board and a line for the process that uses it."""
    from harness.boards.locks.ticket import clock

    lines = [
        (f"{each.owner.user}@{each.owner.host}", each.owner.purpose, clock(each.has_it_s), _until(each, state.now))
        for each in state.having
    ]
    return [Text("\n".join(column)) for column in zip(*lines, strict=True)] if lines else [Text("")] * 4


def _until(ticket: Ticket, now: Now) -> str:
    from harness.boards.locks.ticket import clock

    if ticket.by_hand_s is not None:
        return clock(ticket.until_s)
    return f"pid {ticket.owner.pid} ends; heartbeat {max(0, now.awake_s - ticket.renewed_s):.0f} s ago"


def _queue(tickets: Sequence[Ticket]) -> str:
    return "\n".join(f"{ticket.owner.user}@{ticket.owner.host}: {ticket.owner.purpose}" for ticket in tickets)


def _state_document(state: _State) -> dict[str, Any]:
    return {
        "board": state.board.name,
        "where": _where(state.board),
        "holders": [_ticket_document(each, state.now) for each in state.having],
        "waiting": [_ticket_document(each, state.now) for each in state.waiting],
        "quarantine": asdict(state.quarantine) if state.quarantine else None,
    }


def _ticket_document(ticket: Ticket, now: Now) -> dict[str, Any]:
    alone = ticket.by_hand_s is not None
    return asdict(ticket.owner) | {
        "by_hand": alone,
        "since_s": ticket.has_it_s or None,
        "until_s": ticket.until_s if alone else None,
        "lease_s": None if alone else round(ticket.lease_s - (now.awake_s - ticket.renewed_s), 1),
    }


def lock_by_hand(name: str, for_s: float, purpose: str, wait_s: float, workspace: Workspace, console: Console) -> None:
    """Lock a board for this user; BoardError if it is not free after `wait_s` seconds."""
    from harness.boards import profile as profiles
    from harness.boards.locks import lock, queue_of
    from harness.boards.locks.ticket import Now, clock, having

    board = profiles.load(workspace.boards).board(name)
    with queue_of(board, workspace.locks(board)) as queue:
        before = [each for each in having(queue.tickets(), Now.read()) if _is_my_own(each)]
        ticket = lock.reserve(queue, purpose, for_s, wait_s, console.note)
    instead = f" (was {clock(before[-1].until_s)}, {before[-1].owner.purpose})" if before else ""
    until = f"{clock(ticket.until_s)}{instead}"
    console.show(
        Text(f"{name} is locked until {until}; your commands can use it; release it with: harness boards unlock {name}")
    )
    console.document({"board": name, "until_s": ticket.until_s, "purpose": ticket.owner.purpose})


def _is_my_own(ticket: Ticket) -> bool:
    """Return whether this user has locked the board with `harness boards lock`."""
    return ticket.is_mine and ticket.by_hand_s is not None


def unlock(name: str, workspace: Workspace, console: Console, *, force: bool) -> None:
    """Release a board; BoardError if another user has it and `force` is not given."""
    from harness.boards import profile as profiles
    from harness.boards.locks import lock, queue_of

    board = profiles.load(workspace.boards).board(name)
    with queue_of(board, workspace.locks(board)) as queue:
        ended = lock.release(queue, force=force)
    for ticket in ended:
        within = "" if ticket.by_hand_s is not None else f", which ends within {lock.TERMS.beat_s:g} s"
        from_whom = "released" if _is_my_own(ticket) else f"taken from {ticket.owner}{within}"
        console.show(Text(f"{name} is {from_whom}"))
    if not ended:
        console.show(Text(f"{name} is not locked"))
    console.document({"board": name, "taken_from": [asdict(ticket.owner) for ticket in ended]})


def check(
    names: Sequence[str],
    workspace: Workspace,
    console: Console,
    *,
    quarantine_failing: bool = False,
    remove_older_days: int | None = None,
) -> int:
    """Check boards in parallel; exit code 3 if a board fails."""
    from harness.boards import profile as profiles
    from harness.boards.locks import key_or_name

    known = profiles.load(workspace.boards)
    if not names:
        names = sorted(name for name, board in known.profiles.items() if not board.lacks_address)
        for name in known.profiles.keys() - set(names):
            console.note(f"board {name} is not checked: no address: {known.profiles[name].lacks_address}")
    boards = [known.board(name) for name in dict.fromkeys(names)]
    keys = [key_or_name(board) for board in boards]
    one_at_a_time = {
        key: threading.Lock() for key in keys
    }  # a check must not find a board with two names in use by its other check

    def look(board: Profile, key: str) -> Health:
        with one_at_a_time[key]:
            found = _check(board, workspace, remove_older_days)
            return _with_gpu(_quarantined(found, board, workspace) if quarantine_failing else found, board)

    with ThreadPoolExecutor(AT_ONCE) as pool, console.progress("checking boards", len(boards)) as bar:
        found = [_advanced(one, bar.advance) for one in pool.map(look, boards, keys)]
    console.show(_health_table(found))
    for board, one in zip(boards, found, strict=True):
        if not one.in_use and (ill := _ill(board, workspace)):
            console.note(
                f"board {board.name} is {ill}{'; it passes now: --quarantine removes the quarantine' if one.ok else ''}"
            )
        if one.hint:
            console.note(f"board {board.name}: {one.hint}")
    console.document({"boards": [_health_document(one) for one in found]})
    return EXIT_DONE if all(one.ok for one in found) else EXIT_INFRASTRUCTURE


def _ill(board: Profile, workspace: Workspace) -> Quarantine | None:
    from harness.boards.locks import quarantined

    with suppress(InfrastructureError):
        return quarantined(board, workspace.locks(board))
    return None


def _advanced(found: Health, advance: Callable[[int], None]) -> Health:
    advance(1)
    return found


def _check(board: Profile, workspace: Workspace, remove_older_days: int | None) -> Health:
    """Check a board; a board that is in use is not disturbed, it only has to answer."""
    from harness.boards.locks import health, session
    from harness.boards.locks.health import Check, Health
    from harness.boards.locks.lease_guard import BoardBusy

    try:
        state = _State.read(board, workspace)
        if any(each.by_hand_s is None for each in state.having):
            return _from_outside(state)
        with session(board, workspace.locks(board), workspace.cache, "check", 0, _silent) as connection:
            checks = health.look(connection.board, connection.work)
            if remove_older_days is not None:
                checks = (*checks, health.clean(connection.board, connection.work, remove_older_days))
            return health.conclude(board.name, checks)
    except BoardBusy as busy:  # locked meanwhile, or on another host
        return Health(board.name, (Check("in use", True, busy.message),), in_use=busy.in_use)
    except InfrastructureError as error:
        return health.unreachable(board.name, error)


def _from_outside(state: _State) -> Health:
    from harness.boards.locks import health
    from harness.boards.locks.health import Check, Health
    from harness.boards.ssh_address import resolve

    board = state.board
    who = state.having[-1].describe(board.name)
    in_use = Check("in use", True, f"{who}: further checks skipped")
    address = resolve(board.address) if board.address else None
    if address is None or address.jump or address.proxy_command:
        return Health(board.name, (in_use,), in_use=who)
    answers = _answers(address.host, address.port)
    reachable = Check("reachable", answers, "an SSH server answers" if answers else "no SSH server answers")
    return health.conclude(board.name, (in_use, reachable), who)


def _answers(host: str, port: int) -> bool:
    """Return whether an SSH server sends its banner at this address."""
    with suppress(OSError), socket.create_connection((host, port), BANNER_S) as link:
        return link.recv(4) == b"SSH-"
    return False


def _quarantined(found: Health, board: Profile, workspace: Workspace) -> Health:
    """Set or remove the quarantine; skip a board in use, because its holder may be restarting it."""
    from harness.boards.locks import health, quarantine, queue_of

    if found.in_use:
        return found
    try:
        with queue_of(board, workspace.locks(board)) as queue:
            quarantine.put(queue, found.reason)
    except InfrastructureError as error:
        return health.unreachable(board.name, error, found.checks)
    return found


def _with_gpu(found: Health, board: Profile) -> Health:
    """Add the check of the board's GPU; other boards of this machine can pass without it."""
    from harness.boards.locks import health
    from harness.boards.locks.health import Check
    from harness.targets.cuda import driver

    if not driver.is_needed(board):
        return found
    fault = driver.fault()
    return health.with_check(found, Check("GPU", not fault, fault or driver.FOUND))


def _silent(_: str) -> None:
    """Discard notes; the check reports all results at its end."""


def _health_document(found: Health) -> dict[str, Any]:
    checks = [asdict(check) for check in found.checks]
    return {
        "board": found.board,
        "ok": found.ok,
        "part": found.part,
        "reason": found.reason,
        "in_use": found.in_use,
        "checks": checks,
    }


def _health_table(found: Sequence[Health]) -> Table:
    table = Table("", "board", "check", "found", box=None)
    for one in found:
        for each in one.checks:
            mark = Text("ok", style="green") if each.ok else Text("fails", style="bold red")
            table.add_row(mark, Text(one.board), Text(each.name), Text(each.text))
    return table


def cycle(name: str, workspace: Workspace, console: Console) -> None:
    """Switch a board off and on and wait until it answers; BoardError if another user has it or it does not answer."""
    from harness.boards import profile as profiles
    from harness.boards.connect import reach
    from harness.boards.locks import hold, power

    board = profiles.load(workspace.boards).board(name)
    power.check_switch(board)

    @contextmanager
    def connect() -> Iterator[Board]:
        with reach(board, workspace.cache, _silent) as connection:
            yield held.guard(connection.board)

    with hold(board, workspace.locks(board), "power cycle", 0, console.note) as held:
        took_s = power.cycle(board, held.check, connect, console.note)
    console.show(Text(f"{name} answers, {took_s:.1f} s after power-on"))
    console.document({"board": name, "ok": True, "answered_after_s": round(took_s, 1)})
