"""Resolution of a profile's address by ~/.ssh/config and /etc/ssh/ssh_config; no board is contacted."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from harness.boards import ssh_address
from harness.boards.locks import key_of, key_or_name
from harness.boards.profile import Address as Given
from harness.boards.profile import Profile
from harness.boards.ssh_address import GLOBAL_KNOWN_HOSTS, Address, resolve
from harness.core.errors import ConnectionFailed

ME = getpass.getuser()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with an empty configuration; the system's file is in the folder `etc` beside it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ssh_address, "SYSTEM_FILE", tmp_path / "etc" / "ssh_config")
    for folder in (tmp_path / "home" / ".ssh", tmp_path / "etc"):
        folder.mkdir(parents=True)
    return tmp_path / "home"


def write(home: Path, text: str, name: str = "config") -> Path:
    path = home / ".ssh" / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def refusal(host: str = "xavier", **values: object) -> ConnectionFailed:
    with pytest.raises(ConnectionFailed) as caught:
        resolve(Given(host=host, **values))  # type: ignore[arg-type]
    assert caught.value.hint
    return caught.value


def test_without_a_configuration_the_profile_and_the_defaults_apply(home: Path) -> None:
    found = resolve(Given(host="10.0.7.21"))
    files = Path("~/.ssh/known_hosts"), None, (), GLOBAL_KNOWN_HOSTS
    assert found == Address("10.0.7.21", ME, 22, None, *files, name="10.0.7.21")
    assert (found.stated, found.place) == (f"{ME}@10.0.7.21:22", "10.0.7.21:22")
    assert found.known_hosts_files == (home / ".ssh" / "known_hosts", *GLOBAL_KNOWN_HOSTS)


XAVIER = """\
Host xavier
    HostName 10.0.7.21
    Port 2222
    User nvidia
    IdentityFile ~/.ssh/%r_lab
    IdentityFile none
    UserKnownHostsFile ~/.ssh/lab /lab/%h

Host *
    Port 3333
    User nobody
    StrictHostKeyChecking no
"""


def test_an_alias_gives_all_values(home: Path) -> None:
    write(home, XAVIER)
    found = resolve(Given(host="xavier"))
    assert found.stated == "nvidia@10.0.7.21:2222"
    assert found.identities == (home / ".ssh" / "nvidia_lab",)
    assert found.known_hosts_files == (home / ".ssh" / "lab", Path("/lab/10.0.7.21"), *GLOBAL_KNOWN_HOSTS)
    assert (found.name, found.source) == ("xavier", "HostName of xavier in the SSH configuration")


@pytest.mark.parametrize(
    ("value", "stated"),
    [
        ({"user": "ana"}, "ana@10.0.7.21:2222"),
        ({"port": 22}, "nvidia@10.0.7.21:22"),
        ({"user": "ana", "port": 7}, "ana@10.0.7.21:7"),
    ],
)
def test_a_value_of_the_profile_has_precedence(home: Path, value: dict[str, object], stated: str) -> None:
    write(home, XAVIER)
    assert resolve(Given(host="xavier", **value)).stated == stated  # type: ignore[arg-type]


def test_the_files_of_the_profile_replace_those_of_the_configuration(home: Path) -> None:
    write(home, XAVIER)
    found = resolve(Given(host="xavier", key="~/mine", known_hosts="~/known"))
    assert (found.key, found.identities) == (home / "mine", ())
    assert found.known_hosts_files == (home / "known",)


def test_the_default_of_the_profile_has_no_precedence(home: Path) -> None:
    """The same values, once given and once left out."""
    write(home, XAVIER)
    given = resolve(Given(host="xavier", port=22, known_hosts="~/.ssh/known_hosts"))
    assert (given.port, given.known_hosts_files) == (22, (home / ".ssh" / "known_hosts",))
    assert resolve(Given(host="xavier")).port == 2222


def test_a_lookup_does_not_ask_the_dns(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSHConfig would, for the token %l, also where no value has it."""
    write(home, XAVIER + "    ControlPath ~/.ssh/%C\n")
    monkeypatch.setattr("paramiko.config.socket.getfqdn", lambda: pytest.fail("asked"))
    assert resolve(Given(host="xavier")).port == 2222


def test_known_hosts_none_is_no_file(home: Path) -> None:
    write(home, "UserKnownHostsFile none\n")
    assert resolve(Given(host="xavier")).known_hosts_files == (Path("/dev/null"), *GLOBAL_KNOWN_HOSTS)


def test_the_files_of_the_system_and_the_alias_of_the_key(home: Path) -> None:
    write(
        home, "Host xavier\n GlobalKnownHostsFile /lab/hosts ~/more\n HostKeyAlias board-7\nHost *\n HostKeyAlias x\n"
    )
    found = resolve(Given(host="xavier"))
    assert found.host_key_alias == "board-7"
    assert found.known_hosts_files == (home / ".ssh" / "known_hosts", Path("/lab/hosts"), home / "more")
    assert resolve(Given(host="xavier", known_hosts="~/known")).known_hosts_files == (home / "known",)
    write(home, "GlobalKnownHostsFile none\n")
    assert resolve(Given(host="xavier")).known_hosts_files == (home / ".ssh" / "known_hosts", Path("/dev/null"))


# ---- ProxyJump and ProxyCommand

GATES = """\
Host xavier
    HostName 10.0.7.21
    ProxyJump ana@outer, inner:2200
Host outer
    HostName gate.example
    User nobody
    Port 2022
Host inner
    HostName 10.0.7.1
    ProxyJump elsewhere
"""


def test_jump_hosts_are_chained_in_order(home: Path) -> None:
    write(home, GATES)
    found = resolve(Given(host="xavier", user="nvidia"))
    assert found.stated == f"nvidia@10.0.7.21:22 via {ME}@10.0.7.1:2200 via ana@gate.example:2022"
    assert found.place == "10.0.7.21:22 via 10.0.7.1:2200 via gate.example:2022"
    assert [hop.name for hop in found.hops] == ["outer", "inner", "xavier"]


def test_an_ipv6_address_of_a_jump_host_is_in_brackets(home: Path) -> None:
    write(home, "Host xavier\n HostName 2001:db8::7\n ProxyJump ana@[fe80::1%eth0]:2200,ssh://[::1]\n")
    found = resolve(Given(host="xavier"))
    assert [(hop.user, hop.host, hop.port) for hop in found.hops] == [
        ("ana", "fe80::1%eth0", 2200), (ME, "::1", 22), (ME, "2001:db8::7", 22)
    ]  # fmt: skip
    assert found.place == "[2001:db8::7]:22 via [::1]:22 via [fe80::1%eth0]:2200"


def test_the_first_jump_host_follows_its_own_block(home: Path) -> None:
    write(home, "Host xavier\n ProxyJump inner\nHost inner\n ProxyJump ssh://outer:23\n")
    assert resolve(Given(host="xavier")).place == "xavier:22 via inner:22 via outer:23"


def test_the_jump_of_a_profile_is_an_alias_too_and_has_precedence(home: Path) -> None:
    write(home, "Host xavier\n ProxyJump other\nHost gate\n HostName 10.0.7.1\n ProxyJump outer\n")
    found = resolve(Given(host="xavier", jump=Given(host="gate", user="ana")))
    assert found.stated == f"{ME}@xavier:22 via ana@10.0.7.1:22 via {ME}@outer:22"


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ("ProxyJump gate", "ProxyCommand nc %h %p", "xavier:22 via gate:22"),
        ("ProxyCommand nc %h %p", "ProxyJump gate", "xavier:22 via ProxyCommand"),
        ("ProxyJump none", "ProxyCommand nc %h %p", "xavier:22"),
        ("ProxyCommand none", "ProxyJump gate", "xavier:22"),
    ],
)
def test_the_first_proxy_of_the_configuration_has_precedence(home: Path, first: str, second: str, place: str) -> None:
    write(home, f"Host xavier\n {first}\nHost xavier\n {second}\n")
    assert resolve(Given(host="xavier")).place == place


def test_the_proxy_command_gets_the_values_of_the_profile(home: Path) -> None:
    write(home, "Host xavier\n HostName 10.0.7.21\n Port 9\n ProxyCommand nc -l %r %h %p\n")
    assert resolve(Given(host="xavier", user="ana", port=2222)).proxy_command == "nc -l ana 10.0.7.21 2222"
    assert "nc" not in repr(resolve(Given(host="xavier"))), "a command may contain a secret"


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("Host *\n ProxyJump gate\n", "xavier:22 -> {me}@gate:22 -> {me}@gate:22"),
        ("Host xavier\n ProxyJump gate\nHost gate\n ProxyJump xavier\n", "xavier:22 -> {me}@gate:22 -> {me}@xavier:22"),
        ("Host xavier\n ProxyJump gate,xavier\n", "xavier:22 -> {me}@xavier:22"),
        ("Host *\n ProxyJump x%h\n", "xavier:22 -> {me}@xxavier:22 -> "),
    ],
)
def test_a_loop_of_jump_hosts_is_refused(home: Path, text: str, hops: str) -> None:
    write(home, text)
    error = refusal()
    assert error.message.startswith(f"ProxyJump in the SSH configuration loops: {ME}@{hops.format(me=ME)}")
    assert "ProxyJump none" in error.hint


@pytest.mark.parametrize("hop", ["", "gate:ssh", "gate:0", "a@b@c", "[::1]x"])
def test_an_invalid_jump_host_is_refused(home: Path, hop: str) -> None:
    write(home, f"Host xavier\n ProxyJump gate,{hop}\n")
    error = refusal()
    assert error.message == f"ProxyJump of xavier in the SSH configuration is invalid: {hop!r}"
    assert "[user@]host[:port]" in error.hint


# ---- the files


def test_the_file_of_the_user_precedes_that_of_the_system(home: Path, tmp_path: Path) -> None:
    write(home, "Host gate\n User me\n")
    (tmp_path / "etc" / "ssh_config").write_text("User system\nPort 2222\n")
    assert resolve(Given(host="gate")).stated == "me@gate:2222"
    assert resolve(Given(host="xavier")).stated == "system@xavier:2222", "the last block of the user's file has ended"


def test_included_files_are_read(home: Path, tmp_path: Path) -> None:
    write(home, "Host other\n Port 1\nHost *\n Include lab.d/* ~/.ssh/more\n User last\n")
    (home / ".ssh" / "lab.d").mkdir()
    write(home, "Host xavier\n HostName 10.0.7.21\n", "lab.d/boards")
    write(home, "Host xavier\n Port 2222\n", "more")
    assert resolve(Given(host="xavier")).stated == "last@10.0.7.21:2222"
    assert resolve(Given(host="kv260")).stated == "last@kv260:22", "the block of the included file has ended"
    (tmp_path / "etc" / "ssh_config").write_text("Include conf.d/*.conf\n")
    (tmp_path / "etc" / "conf.d").mkdir()
    (tmp_path / "etc" / "conf.d" / "lab.conf").write_text("Host kv260\n Port 4\n")
    assert resolve(Given(host="kv260")).port == 4


def test_a_file_that_is_included_in_a_block_applies_to_that_block(home: Path) -> None:
    write(home, "Host xavier\n Include one\nHost *\n User all\n")
    write(home, "User nvidia\n", "one")
    assert [resolve(Given(host=host)).user for host in ("xavier", "kv260")] == ["nvidia", "all"]
    write(home, "Host kv260\n User root\n", "one")
    error = refusal()
    place = home / ".ssh" / "config"
    assert error.message == f"{place}:2: cannot include a file with Host or Match lines inside `Host xavier`"


def test_a_file_that_includes_itself_is_refused(home: Path) -> None:
    path = write(home, "\nInclude config\n")
    assert refusal().message.startswith(f"{path}:2: cannot use this line of the SSH configuration: Include is nested")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Port", "Unparsable line Port"),
        ("Match host", "Missing parameter to Match 'host' keyword"),
        ('Match exec "x', "No closing quotation"),
        ("Match tagged lab", "Match tagged is not supported; supported are all, canonical, exec, "),
        ('Include "x', "No closing quotation"),
    ],
)
def test_a_malformed_line_is_named(home: Path, line: str, reason: str) -> None:
    path = write(home, f"# first\n{line}\n")
    error = refusal()
    assert error.message.startswith(f"{path}:2: cannot use this line of the SSH configuration: {reason}")
    path = write(home, f"Include other\nUser {ME}\n")
    other = write(home, f"\n\n{line}\n", "other")
    assert refusal().message.startswith(f"{other}:3: ")


@pytest.mark.parametrize("port", ["ssh", "0", "65536", "22 # comment"])
def test_a_port_that_is_none_is_refused(home: Path, port: str) -> None:
    write(home, f"Port {port}\n")
    assert refusal().message == f"Port of xavier in the SSH configuration is invalid: {port!r}"
    assert resolve(Given(host="xavier", port=22)).port == 22


def test_a_lookup_that_fails_is_refused(home: Path) -> None:
    write(home, "CanonicalizeHostname yes\n")
    error = refusal()
    assert error.message.startswith("cannot look xavier up in the SSH configuration: KeyError: ")
    assert error.hint == "compare with: ssh -G xavier"
    write(home, 'UserKnownHostsFile "a\n')
    assert refusal().message.startswith("UserKnownHostsFile of xavier in the SSH configuration is invalid: ")


def test_a_file_that_others_may_write_is_refused(home: Path, tmp_path: Path) -> None:
    path = write(home, XAVIER)
    path.chmod(0o620)
    error = refusal()
    assert error.message == f"others may write to the SSH configuration {path}"
    assert error.hint.startswith(f"chmod go-w {path}")
    path.unlink()
    path.mkdir()
    assert refusal().message.startswith(f"cannot read the SSH configuration {path}: [Errno 21]")
    path.rmdir()
    (tmp_path / "etc" / "ssh_config").write_text("Port 7\n")
    (tmp_path / "etc" / "ssh_config").chmod(0o666)
    assert resolve(Given(host="xavier")).port == 7


def test_match_blocks(home: Path) -> None:
    write(
        home,
        "Match Host xavier user nvidia\n Port 1\nMatch originalhost kv260\n Port 2\nMatch !host xavier,kv260\n Port 3\n"
        "Match final all\n Port 4\n",
    )
    ports = [resolve(Given(host=host, user=user)).port for host, user in (("xavier", "nvidia"), ("xavier", "root"))]
    assert ports == [1, 4]
    assert [resolve(Given(host=host)).port for host in ("kv260", "tda4vm")] == [2, 3]


# ---- locks


def test_two_names_of_one_board_have_one_lock(host: Profile, home: Path) -> None:
    write(home, GATES + "Host agx\n HostName 10.0.7.21\n ProxyJump outer,inner\nHost here\n ProxyCommand nc %h %p\n")

    def key(**address: object) -> str:
        return key_of(host.model_copy(update={"local": False, "address": Given(**address)}))  # type: ignore[arg-type]

    way = "-via-10.0.7.1-2200-via-gate.example-2022"
    assert key(host="xavier") == f"10.0.7.21-22{way}"
    gates = {"host": "10.0.7.1", "port": 2200, "jump": {"host": "gate.example", "port": 2022}}
    assert key(host="10.0.7.21", jump=gates) == f"10.0.7.21-22{way}"
    assert key(host="agx") == f"10.0.7.21-22{way.replace('2200', '22')}", "another port of the jump host"
    assert key(host="10.0.7.21") == "10.0.7.21-22"
    assert key(host="here") == "here-22-via-command"


def test_a_configuration_that_cannot_be_used_leaves_the_name(host: Profile, home: Path) -> None:
    path = write(home, "Port\n")
    board = host.model_copy(update={"name": "xavier", "local": False, "address": Given(host="lab")})
    with pytest.raises(ConnectionFailed, match=str(path)):
        key_of(board)
    assert key_or_name(board) == "xavier"
    assert key_or_name(host) == "this-machine"
