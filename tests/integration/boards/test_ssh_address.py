"""Resolution of a profile's address by ~/.ssh/config and /etc/ssh/ssh_config; no board is contacted."""

from __future__ import annotations

import getpass
import os
import pwd
from pathlib import Path

import pytest

from harness.boards import profile, ssh_config
from harness.boards.locks import key_of, key_or_name
from harness.boards.profile import Address as Given
from harness.boards.profile import Profile
from harness.boards.ssh_address import Address, resolve
from harness.cli import doctor
from harness.core.errors import ConnectionFailed
from tests.support.boards.ssh_home import Home

ME = getpass.getuser()
SYSTEM_KEYS = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with an empty configuration; the system's file is beside it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    monkeypatch.setattr(ssh_config, "SYSTEM_FILE", tmp_path / "ssh_config")
    home = Home.made(tmp_path / "home")
    home.configure("")
    return home


def resolved(host: str = "xavier", **values: object) -> Address:
    return resolve(Given(host=host, **values))  # type: ignore[arg-type]


def refusal(host: str = "xavier", **values: object) -> ConnectionFailed:
    with pytest.raises(ConnectionFailed) as caught:
        resolved(host, **values)
    assert caught.value.hint
    return caught.value


def test_without_a_configuration_the_profile_and_the_defaults_apply(home: Home) -> None:
    address = resolved("10.0.7.21")
    user = home.known_hosts, home.folder / ".ssh" / "known_hosts2"
    assert address == Address(
        "10.0.7.21", ME, known_hosts=user[0], more_known_hosts=(user[1], *SYSTEM_KEYS), name="10.0.7.21"
    )
    assert (address.stated, address.place) == (f"{ME}@10.0.7.21:22", "10.0.7.21:22")
    assert (address.agent, address.has_default_identities) == ("/agent", True)


# ---- the words of the configuration


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Host kv260 # the slot of xavier\n HostName 10.0.7.30\nHost xavier\n HostName 10.0.7.21\n", "10.0.7.21:22"),
        ("Host kv260 # was *\n Port 2222\n", "xavier:22"),
        ("Host xavier # the AGX\n HostName 10.0.7.21 # rack 3\n Port 2222 # forwarded\n", "10.0.7.21:2222"),
        ("Host xavier\n User nvidia # not root\n", "nvidia@xavier:22"),
        ("Host xavier\n User 'nvidia'\n HostName '10.0.7.21'\n", "nvidia@10.0.7.21:22"),
        ("Host xavier\n ProxyJump gate # the bastion\n", f"xavier:22 via {ME}@gate:22"),
        ("Host xavier\n ProxyJump ana@lab@gate-%h:2200\n", "xavier:22 via ana@lab@gate-xavier:2200"),
        ("Host xavier\n HostName fe80::1%%eth0\n", "[fe80::1%eth0]:22"),
        ("Host xavie[r]\n Port 2222\n", "xavier:22"),
        ("Match host=xavier # rack 3\n Port 2222\n", "xavier:2222"),
        ("Match user nvidia\n Port 2222\nHost xavier\n User nvidia\n", "nvidia@xavier:22"),
        ("Match host 10.0.7.21\n Port 2222\nHost xavier\n HostName 10.0.7.21\n", "10.0.7.21:22"),
        ("Host xavier\n HostName 10.0.7.21\nMatch host 10.0.7.21\n Port 2222\n", "10.0.7.21:2222"),
        ("Match final host 10.0.7.21\n Port 2222\nHost xavier\n HostName 10.0.7.21\n", "10.0.7.21:2222"),
        ('Match exec "test %h = 10.0.7.21"\n Port 2222\nHost xavier\n HostName 10.0.7.21\n', "10.0.7.21:22"),
        ('Match !exec "false" # always\n Port 2222\n', "xavier:2222"),
        ("Match !all\n Port 2222\n", "xavier:22"),
        ("CanonicalizeHostname yes\nPort ssh\n", "xavier:22"),
    ],
)
def test_the_configuration_is_read_as_openssh_reads_it(home: Home, text: str, stated: str) -> None:
    home.configure(text)
    assert resolved().stated == (stated if "@" in stated.partition(" ")[0] else f"{ME}@{stated}")


XAVIER = """\
Host xavier
    HostName 10.0.7.21
    Port 2222
    User nvidia
    IdentityFile ~/.ssh/%r_lab
    IdentityFile none
    IdentitiesOnly yes
    IdentityAgent /lab/agent # forwarded
    ConnectTimeout 30
    HostKeyAlias board-7 # the slot
    UserKnownHostsFile "/lab/my hosts" /lab/%h # the lab
    GlobalKnownHostsFile /lab/all
    RevokedHostKeys /lab/revoked

Host *
    Port 3333
    User nobody
    StrictHostKeyChecking no
"""


def test_an_alias_gives_all_values(home: Home) -> None:
    home.configure(XAVIER)
    address = resolved()
    assert address.stated == "nvidia@10.0.7.21:2222"
    assert (address.identities, address.identities_only) == ((home.folder / ".ssh" / "nvidia_lab",), True)
    assert (address.agent, address.connect_s, address.host_key_alias) == ("/lab/agent", 30, "board-7")
    assert address.known_hosts_files == (Path("/lab/my hosts"), Path("/lab/10.0.7.21"), Path("/lab/all"))
    assert address.revoked_keys == (Path("/lab/revoked"),)
    assert (address.name, address.source) == ("xavier", "HostName of xavier in the SSH configuration")


@pytest.mark.parametrize(
    ("value", "stated"),
    [
        ({"user": "ana"}, "ana@10.0.7.21:2222"),
        ({"port": 22}, "nvidia@10.0.7.21:22"),
        ({"user": "ana", "port": 7}, "ana@10.0.7.21:7"),
    ],
)
def test_a_value_of_the_profile_has_precedence(home: Home, value: dict[str, object], stated: str) -> None:
    home.configure(XAVIER)
    assert resolved(**value).stated == stated  # type: ignore[arg-type]


def test_the_files_of_the_profile_replace_those_of_the_configuration(home: Home) -> None:
    home.configure(XAVIER)
    address = resolved(key="~/mine", known_hosts="~/known")
    assert (address.key, address.identities) == (home.folder / "mine", ())
    assert address.known_hosts_files == (home.folder / "known",)


def test_the_default_of_the_profile_has_no_precedence(home: Home) -> None:
    """The same values, once given and once left out."""
    home.configure(XAVIER)
    address = resolved(port=22, known_hosts="~/.ssh/known_hosts")
    assert (address.port, address.known_hosts_files) == (22, (home.known_hosts,))
    assert resolved().port == 2222


def test_no_files_of_host_keys(home: Home) -> None:
    home.configure("UserKnownHostsFile none\n")
    assert resolved().known_hosts_files == (Path("/dev/null"), *SYSTEM_KEYS)
    home.configure("UserKnownHostsFile /lab/hosts\nGlobalKnownHostsFile none\n")
    assert resolved().known_hosts_files == (Path("/lab/hosts"),)


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("%d/%r@%h_%p", "{home}/root@10.0.7.21_22"),
        ("~/.ssh/lab\\ key # of the lab", "{home}/.ssh/lab key"),
        ("/k/%n-%k-%i-%u-%%h", f"/k/xavier-slot-{os.getuid()}-{ME}-%h"),
        ("${LAB_KEYS}/board", "/lab/keys/board"),
        ("/k/%C", ""),
        ("${NO_SUCH_VARIABLE}/k", ""),
    ],
)
def test_tokens_of_an_identity_file(home: Home, monkeypatch: pytest.MonkeyPatch, file: str, path: str) -> None:
    """`ssh -G` prints them as they are."""
    monkeypatch.setenv("LAB_KEYS", "/lab/keys")
    home.configure(f"User root\nHostName 10.0.7.21\nHostKeyAlias slot\nIdentityFile {file}\n")
    if path:
        assert resolved().identities == (Path(path.format(home=home.folder)),)
    else:
        assert " has no value, for xavier in the SSH configuration" in refusal().message


@pytest.mark.parametrize(
    ("agent", "path"),
    [("none", ""), ("SSH_AUTH_SOCK", "/agent"), ("$OTHER_AGENT", "/other"), ("$NO_SUCH_VARIABLE", "")],
)
def test_the_agent_of_the_configuration(home: Home, monkeypatch: pytest.MonkeyPatch, agent: str, path: str) -> None:
    monkeypatch.setenv("OTHER_AGENT", "/other")
    home.configure(f"IdentityAgent {agent}\nIdentityFile none\n")
    address = resolved()
    assert (address.agent, address.identities, address.has_default_identities) == (path, (), False)


# ---- ProxyJump and ProxyCommand

GATES = """\
Host xavier
    HostName 10.0.7.21
    ProxyJump ana@outer,inner:2200
Host outer
    HostName gate.example
    User nobody
    Port 2022
Host inner
    HostName 10.0.7.1
    ProxyJump elsewhere
"""


def test_jump_hosts_are_chained_in_order(home: Home) -> None:
    home.configure(GATES)
    found = resolved(user="nvidia")
    assert found.stated == f"nvidia@10.0.7.21:22 via {ME}@10.0.7.1:2200 via ana@gate.example:2022"
    assert found.place == "10.0.7.21:22 via 10.0.7.1:2200 via gate.example:2022"
    assert [hop.name for hop in found.hops] == ["outer", "inner", "xavier"]


def test_an_ipv6_address_of_a_jump_host_is_in_brackets(home: Home) -> None:
    home.configure("Host xavier\n HostName 2001:db8::7\n ProxyJump ana@[fe80::1%%eth0]:2200,[::1]\n")
    found = resolved()
    assert [(hop.user, hop.host, hop.port) for hop in found.hops] == [
        ("ana", "fe80::1%eth0", 2200), (ME, "::1", 22), (ME, "2001:db8::7", 22)
    ]  # fmt: skip
    assert found.place == "[2001:db8::7]:22 via [::1]:22 via [fe80::1%eth0]:2200"


def test_the_first_jump_host_follows_its_own_block(home: Home) -> None:
    home.configure("Host xavier\n ProxyJump inner\nHost inner\n ProxyJump ssh://outer:23\n")
    assert resolved().place == "xavier:22 via inner:22 via outer:23"


def test_the_jump_of_a_profile_is_an_alias_too_and_has_precedence(home: Home) -> None:
    home.configure("Host xavier\n ProxyJump other\nHost gate\n HostName 10.0.7.1\n ProxyJump outer\n")
    found = resolved(jump=Given(host="gate", user="ana"))
    assert found.stated == f"{ME}@xavier:22 via ana@10.0.7.1:22 via {ME}@outer:22"


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ("ProxyJump gate", "ProxyCommand nc %h %p", "xavier:22 via gate:22"),
        ("ProxyCommand nc %h %p", "ProxyJump gate", "xavier:22 via ProxyCommand"),
        ("ProxyJump none", "ProxyCommand nc %h %p", "xavier:22 via ProxyCommand"),
        ("ProxyCommand none", "ProxyJump gate", "xavier:22"),
    ],
)
def test_the_first_proxy_of_the_configuration_has_precedence(home: Home, first: str, second: str, place: str) -> None:
    home.configure(f"Host xavier\n {first}\nHost xavier\n {second}\n")
    assert resolved().place == place


def test_the_proxy_command_gets_the_values_of_the_profile(home: Home) -> None:
    home.configure("Host xavier\n HostName 10.0.7.21\n Port 9\n ProxyCommand nc -l %r %h %p '%n' %%1 ${X} # %r\n")
    assert resolved(user="ana", port=2222).proxy_command == "nc -l ana 10.0.7.21 2222 'xavier' %1 ${X} # ana"
    assert "nc" not in repr(resolved()), "a command may contain a secret"


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("Host xavier\n ProxyJump gate\nHost gate\n ProxyJump xavier\n", "xavier:22 -> {me}@gate:22 -> {me}@xavier:22"),
        ("Host xavier\n ProxyJump xavier,gate\n", "xavier:22 -> {me}@xavier:22"),
        ("Host *\n ProxyJump x%h\n", "xavier:22 -> {me}@xxavier:22 -> "),
    ],
)
def test_a_loop_of_jump_hosts_is_refused(home: Home, text: str, hops: str) -> None:
    home.configure(text)
    error = refusal()
    assert error.message.startswith(f"ProxyJump in the SSH configuration loops: {ME}@{hops.format(me=ME)}")
    assert "ProxyJump none" in error.hint
    home.configure("ProxyJump gate\n")
    assert refusal().message == "ssh refuses gate: jumphost loop via gate"


@pytest.mark.parametrize("hop", ["", "gate:0", "[::1]x"])
def test_an_invalid_jump_host_is_refused(home: Home, hop: str) -> None:
    home.configure(f"Host xavier\n ProxyJump gate,{hop}\n")
    message = refusal().message
    assert message.startswith(f"ssh refuses xavier: {home.config} line 2: Invalid ProxyJump")


# ---- the files


def test_the_file_of_the_user_precedes_that_of_the_system(home: Home, tmp_path: Path) -> None:
    (tmp_path / "ssh_config").write_text("User system\nPort 2222\nHost *\n UserKnownHostsFile /lab/of_system\n")
    home.configure("Host gate\n User me\n")
    assert resolved("gate").stated == "me@gate:2222"
    address = resolved()
    assert address.stated == "system@xavier:2222", "the last block of the user's file has ended"
    assert address.known_hosts == Path("/lab/of_system")


def test_included_files_are_read(home: Home) -> None:
    folder = home.folder / ".ssh" / "lab.d" / "a"
    folder.mkdir(parents=True)
    (folder / "boards").write_text("Host xavier\n HostName 10.0.7.21\n")
    (folder.parent / "more").write_text("Host xavier\n Port 2222\n")
    home.configure(f"Host other\n Port 1\nHost *\n Include lab.d/*/boards {folder.parent}/more # all\n User last\n")
    assert resolved().stated == "last@10.0.7.21:2222"
    assert resolved("kv260").stated == "last@kv260:22", "the block of the included file has ended"
    home.configure(f"Host xavier\n Include {folder.parent}/more\n")
    assert (resolved().port, resolved("kv260").port) == (2222, 22)


@pytest.mark.parametrize("line", ["Port", "Prot 22", "Port 65536", "Match host", 'Match exec "x', "Match unheard of"])
def test_a_malformed_line_is_reported_in_the_words_of_ssh(home: Home, line: str) -> None:
    home.configure(f"# first\n{line}\n")
    error = refusal()
    assert error.message.startswith("ssh refuses xavier: ")
    assert str(home.config) in error.message
    assert error.hint.endswith("compare with: ssh -G xavier")
    assert error.exit_code == 3


def test_a_file_that_others_may_write_is_refused(home: Home) -> None:
    home.config.chmod(0o622)
    assert refusal().message == f"ssh refuses xavier: Bad owner or permissions on {home.config}"


@pytest.mark.parametrize("host", ["-oProxyCommand=touch evil", "-F/lab/config", "--"])
def test_neither_host_nor_user_is_an_option_of_ssh(home: Home, host: str) -> None:
    """A profile cannot have such a host; the arguments of `ssh` do not rely on that."""
    home.configure("Port 7\n")
    with pytest.raises(ConnectionFailed) as caught:
        ssh_config.options(host, None, None)
    assert caught.value.message == f"ssh refuses {host}: hostname contains invalid characters"
    assert refusal(user=host).message == "ssh refuses xavier: remote username contains invalid characters"


def test_ssh_is_called_once_for_an_address_of_a_command(home: Home, tmp_path: Path) -> None:
    calls, boards = tmp_path / "calls", tmp_path / "boards.yaml"
    home.configure(f'Match exec "echo >>{calls}"\n Port 7\n')
    for _ in range(3):
        assert resolved().port == 7
    assert calls.read_text() == "\n"
    assert resolved("kv260").port == 7
    assert calls.read_text() == "\n\n"
    home.config.write_text("Port 8\n")
    assert resolved().port == 7
    boards.write_text("{}")
    with pytest.raises(Exception, match="no board is defined"):
        profile.load(boards)
    assert resolved().port == 8, "the next command reads the configuration again"


def test_the_home_of_the_user_database_needs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ssh` is called as a user calls it."""
    folder = pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setenv("HOME", folder)
    ssh_config.options.cache_clear()
    assert resolved("10.0.7.21", user="nvidia").stated.startswith("nvidia@10.0.7.21:")
    with ssh_config._file() as words:
        assert words == []


def test_without_ssh_only_a_whole_address_is_accepted(
    host: Profile, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.configure(XAVIER)
    monkeypatch.setenv("PATH", str(home.folder))
    address = resolved("10.0.7.21", user="nvidia", jump={"host": "gate", "user": "ana", "port": 2200})
    assert address.stated == "nvidia@10.0.7.21:22 via ana@gate:2200"
    assert address.known_hosts_files == (home.known_hosts, *SYSTEM_KEYS)
    for values in ({}, {"port": 22}, {"user": "nvidia", "jump": {"host": "gate"}}):
        error = refusal(**values)
        assert error.message.endswith(": ssh is not on this machine, so ~/.ssh/config is not read")
        assert "openssh-client; or give the whole address as user@host" in error.hint
    board = host.model_copy(update={"name": "xavier", "local": False, "address": Given(host="10.0.7.21", user="nv")})
    assert doctor._address("xavier", board).found == f"10.0.7.21:22; {ssh_config.NOT_INSTALLED}"


def test_another_program_named_ssh_is_reported(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.folder / "ssh").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(home.folder))
    assert refusal().message == "ssh -G xavier prints no address"


def test_key_files_that_resemble_the_default_ones_are_tried(home: Home) -> None:
    names = ("rsa", "ecdsa", "ed25519", "lab")
    home.configure("\n".join(f"IdentityFile ~/.ssh/id_{name}" for name in names))
    address = resolved()
    assert [path.name for path in address.identities] == [f"id_{name}" for name in names]
    assert not address.has_default_identities


# ---- locks


def test_two_names_of_one_board_have_one_lock(host: Profile, home: Home) -> None:
    home.configure(GATES + "Host agx\n HostName 10.0.7.21\n ProxyJump outer,inner\nHost here\n ProxyCommand nc %h %p\n")

    def key(**address: object) -> str:
        return key_of(host.model_copy(update={"local": False, "address": Given(**address)}))  # type: ignore[arg-type]

    way = "-via-10.0.7.1-2200-via-gate.example-2022"
    assert key(host="xavier") == f"10.0.7.21-22{way}"
    gates = {"host": "10.0.7.1", "port": 2200, "jump": {"host": "gate.example", "port": 2022}}
    assert key(host="10.0.7.21", jump=gates) == f"10.0.7.21-22{way}"
    assert key(host="agx") == f"10.0.7.21-22{way.replace('2200', '22')}", "another port of the jump host"
    assert key(host="10.0.7.21") == "10.0.7.21-22"
    assert key(host="here") == "here-22-via-command"


def test_a_configuration_that_cannot_be_used_leaves_the_name(host: Profile, home: Home) -> None:
    home.configure("Port\n")
    board = host.model_copy(update={"name": "xavier", "local": False, "address": Given(host="lab")})
    with pytest.raises(ConnectionFailed, match="ssh refuses lab: "):
        key_of(board)
    assert key_or_name(board) == "xavier"
    assert key_or_name(host) == "this-machine"
