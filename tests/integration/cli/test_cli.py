"""How every command ends when nobody reads what it says, and when somebody ends it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.boards.session import Deadline
from harness.cli.run import command as run_command
from tests.support.cli.command import HARNESS, TIMEOUT_S, User

RUN = ("run", "--board", "host", "--model", "acas_coc", "--trace", "0")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    (tmp_path / "runs").mkdir()
    return User(tmp_path, cache)


@pytest.fixture
def gone() -> Iterator[int]:
    """The way to a reader that has ended, as `head` does when it has seen enough."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def code(user: User, *words: str, out: int, err: int) -> int:
    command = [*HARNESS, "--runs", str(user.folder / "runs"), *words]
    environment = os.environ | {"HARNESS_CACHE": str(user.cache)}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False, env=environment, timeout=TIMEOUT_S
    ).returncode


@pytest.mark.parametrize("words", [("models", "list"), ("models", "list", "--json"), ("--help",)])
def test_without_a_reader_no_command_ends_as_if_something_differed(
    user: User, gone: int, words: tuple[str, ...]
) -> None:
    assert code(user, *words, out=gone, err=gone) == 3


def test_a_run_comes_to_its_verdict_though_nobody_reads_its_notes(user: User, gone: int) -> None:
    assert code(user, *RUN, "--vectors", "10", out=subprocess.DEVNULL, err=gone) == 0
    [verdict] = [path.read_text() for path in (user.folder / "runs").glob("*/log.txt")]
    assert verdict.endswith("verdict: identical\n")


def on_terminal(user: User, columns: int, *words: str) -> str:
    """Return what a command writes on a terminal of so many columns, without its colours."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [*HARNESS, "--runs", str(user.folder / "runs"), *words]
    environment = os.environ | {"HARNESS_CACHE": str(user.cache), "TERM": "xterm"}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.DEVNULL, env=environment):
        os.close(its)
        written = b""
        while True:
            try:
                written += (found := os.read(ours, 1 << 16))
            except OSError:  # Linux: the last process has closed the terminal
                break
            if not found:
                break
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.decode())


SHOWN = {
    "plan": (("plan", "--board", "host", "--model", "acas_coc"), ("50", "57", "13")),
    "run": ((*RUN, "--vectors", "5000"), ("25,000", "2,025,000", "2,055,000")),
    "models": (("models", "list"), ("18,405",)),
    "boards": (("boards", "list"), ()),
    "measure": (("measure", "--board", "host", "--model", "acas_coc", "--samples", "1000"), ("1,000",)),
}


@pytest.mark.parametrize("columns", [60, pytest.param(80, marks=pytest.mark.campaign)])
@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        pytest.param(*each, id=name, marks=pytest.mark.campaign if name == "measure" else ())
        for name, each in SHOWN.items()
    ],
)
def test_a_narrow_terminal_cuts_nothing(
    user: User, words: tuple[str, ...], numbers: tuple[str, ...], columns: int
) -> None:
    text = on_terminal(user, columns, *words)
    assert "…" not in text
    found = set(re.findall(r"[0-9][0-9,]*", text))
    assert set(numbers) <= found, text


@pytest.mark.parametrize("closed", [">&-", "<&- 2>&-"])
def test_what_is_closed_ends_no_command(closed: str) -> None:
    """Nor is it a place for the next file, which would get what libraries say."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *HARNESS, "models", "list"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"acas_coc" in done.stdout) == (closed != ">&-")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGINT, "interrupted (Ctrl-C)"),
        (signal.SIGTERM, "terminated (SIGTERM)"),
        pytest.param(signal.SIGHUP, "terminal closed (SIGHUP)", marks=pytest.mark.campaign),
    ],
)
def test_who_ends_a_run_leaves_the_board_as_it_was(user: User, number: signal.Signals, reason: str) -> None:
    """Also who says so more than once."""
    begun, restored = user.folder / "begun", user.folder / "restored"
    user = user.with_local(f"host: {{setup: [touch {begun}], teardown: [touch {restored}]}}")
    process = user.start(*RUN, "--vectors", "400000")
    deadline = Deadline.after(TIMEOUT_S)
    while not begun.exists() and process.poll() is None and not deadline.passed:
        time.sleep(0.01)
    while not restored.exists() and process.poll() is None:
        process.send_signal(number)
        if number is signal.SIGINT:  # one that arrives while Python ends would kill the process
            break
        time.sleep(0.01)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 3, out + err
    assert restored.exists()
    assert [line for line in err.splitlines() if "stopped" in line] == [f"stopped: {reason}"]
    assert err.splitlines()[-1].startswith("finished work is kept; resume with: harness run --resume ")
    assert "KeyboardInterrupt" not in err
    [log] = (user.folder / "runs").glob("*/log.txt")
    assert f" stopped: {reason}\n" in log.read_text()


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGTERM, "terminated (SIGTERM)"), (signal.SIGINT, "interrupted (Ctrl-C)")]
)
def test_a_command_without_a_run_says_what_ended_it(user: User, number: signal.Signals, reason: str) -> None:
    """The command waits for the content of a pipe: a key may come from a program."""
    pipe = user.folder / "key.pub"
    os.mkfifo(pipe)
    process = user.start("verify", "last", "--key", str(pipe))
    with pipe.open("wb"):  # returns when the command has opened it, too
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err.strip()) == (3, "", f"stopped: {reason}")


HELP = """
import sys
import click
from harness.cli.main import cli

def show(command, words):
    try:
        cli.main([*words, "--help"], standalone_mode=False)
    except SystemExit:
        pass
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            found = command.get_command(None, name)
            assert found.name == name
            show(found, [*words, name])

show(cli, [])
heavy = {"numpy", "onnx", "onnxruntime", "scipy", "paramiko", "jinja2", "pydantic", "cryptography", "yaml"}
sys.exit(", ".join((heavy | {"fabric", "invoke"}) & sys.modules.keys()) or 0)
"""


def test_the_help_of_every_command_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: ") == 49


def test_a_failure_is_told_once(user: User) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    user = user.with_local(f"kv260: {{address: {{host: 127.0.0.1, port: {port}, user: nobody}}}}")
    ended = user.harness("run", "--board", "kv260", "--model", "acas_coc", "--items", "c,c", "--vectors", "10")
    assert ended.code == 3
    message = next(line for line in ended.err.splitlines() if line.startswith("error: ")).removeprefix("error: ")
    assert "Connection refused" in message
    assert ended.err.count(message) == 1
    assert [line.partition(":")[0] for line in ended.err.splitlines()[-3:]] == [
        *("error", "hint", "finished work is kept; resume with")
    ]
    [log] = (user.folder / "runs").glob("*/log.txt")
    assert f" stopped: {message}\n" in log.read_text()


USAGE = {
    "option": (("run", "--bord", "host"), "no such option: --bord", "did you mean --board? see harness run --help"),
    "option before the command": (
        ("--vectors", "5", "run"),
        "no such option: --vectors",
        "write options of a command after its name: harness COMMAND --vectors; see harness --help",
    ),
    "command": (
        ("mesure",),
        "unknown command 'mesure'",
        "did you mean measure? valid choices: boards, case, completion, ",
    ),
    "subcommand": (
        ("models", "imprt"),
        "unknown command 'imprt'",
        "did you mean import? valid choices: analyse, conformance, convert, ",
    ),
    "value": (
        ("run", "--sync", "flg"),
        "invalid value for '--sync': 'flg' is not one of 'barrier', 'flag'",
        "see harness run --help",
    ),
    "nothing to run": (("run",), "give --board and --model, --plan FOLDER, or --resume RUN", "see harness run --help"),
    "argument": (("verify",), "missing argument 'RUN'", "see harness verify --help"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize(("words", "message", "hint"), USAGE.values(), ids=USAGE)
def test_wrong_usage_is_an_error_like_all_others(user: User, words: tuple[str, ...], message: str, hint: str) -> None:
    ended = user.harness(*words)
    error, advice = ended.err.splitlines()
    assert (ended.code, ended.out, error) == (2, "", f"error: {message}")
    assert advice.startswith(f"hint: {hint}")
    document = user.harness(*words, "--json").document
    assert (document["error"], document["exit_code"]) == (message, 2)


@pytest.mark.parametrize("spelling", ["quantise", "optimize", "analyze"])
def test_a_command_is_known_in_two_spellings(user: User, spelling: str) -> None:
    ended = user.harness("models", spelling, "--help")
    assert (ended.code, ended.out.startswith("Usage: harness models ")) == (0, True)


def test_options_are_listed_by_purpose(user: User) -> None:
    found = user.harness("run", "--help").out
    titles = re.findall(r"^(\w.*):$", found, re.MULTILINE)
    assert titles == ["Board, model and plan", "Options", "Stream", "Evidence and reference", "Lab and output"]
    assert " ".join(found.split()).count("[required without --plan or --resume]") == 2
    words = [option for parameter in run_command.params for option in parameter.opts[-1:]]
    assert all(len(re.findall(rf"\n  {word}[ \n]", found)) == 1 for word in words if "x64" not in word)


@pytest.mark.parametrize("group", [(), ("models",), ("boards",)])
def test_help_states_whole_summaries(user: User, group: tuple[str, ...]) -> None:
    ended = user.harness(*group, "--help")
    assert ended.code == 0
    assert "..." not in ended.out.partition("Commands:")[2]
