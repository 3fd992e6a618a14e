"""The value that tells one board from another, and what it can never say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.boards.identity import KINDS, BoardIdentity
from tests.support.identities import EMULATED_XAVIER, HOST, XAVIER

BARE = replace(EMULATED_XAVIER, name="cortex-r5", machine_id="harness.name=cortex-r5", address=None, host_key=None)
"""A processor without an operating system, reached by semihosting."""


@pytest.mark.parametrize(
    "identity", [HOST, XAVIER, EMULATED_XAVIER, BARE, replace(XAVIER, machine_id="hostname:tegra")]
)
def test_an_identity_comes_back_as_it_was_written(identity: BoardIdentity) -> None:
    assert BoardIdentity.parse(identity.document(), "here") == identity


@pytest.mark.parametrize(
    ("identity", "changes", "why"),
    [
        (HOST, {"kind": "hardware"}, "kind is hardware, and no SSH address or host key is stated"),
        (HOST, {"kind": "emulated"}, "kind is emulated, and machine_id is 3d12"),
        (HOST, {"kind": "virtual machine"}, "no SSH address"),
        (HOST, {"address": "root@lab:22"}, "address and host_key must both"),
        (XAVIER, {"host_key": None}, "address and host_key must both"),
        (XAVIER, {"kind": "emulated"}, "kind is emulated, and machine_id is 0123"),
        (EMULATED_XAVIER, {"kind": "hardware"}, "kind is hardware, and machine_id is harness.name=xavier"),
        (EMULATED_XAVIER, {"kind": "this machine"}, "kind is this machine, and machine_id is harness.name=xavier"),
        (BARE, {"kind": "hardware"}, "kind is hardware, and machine_id is harness.name=cortex-r5"),
        (XAVIER, {"kind": "silicon"}, f"kind 'silicon' is unknown; valid kinds: {', '.join(KINDS)}"),
        (XAVIER, {"kind": None}, "kind None is invalid"),
        (XAVIER, {"host_key": "SHA256:short"}, "host_key 'SHA256:short' is invalid"),
        (XAVIER, {"address": "xavier.lab"}, "address 'xavier.lab' is invalid"),
        (XAVIER, {"machine_id": ""}, "machine_id '' is invalid"),
        (XAVIER, {"machine_id": "0123"}, "machine_id '0123' is invalid"),
        (XAVIER, {"machine_id": 7}, "machine_id 7 is invalid"),
        (XAVIER, {"boot_id": "yesterday"}, "boot_id 'yesterday' is invalid"),
        (XAVIER, {"boot_id": None}, "boot_id None is invalid"),
        (XAVIER, {"approved": True}, "unknown keys: 'approved'"),
    ],
)
def test_what_no_board_can_be_is_refused(identity: BoardIdentity, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=r"^here") as caught:
        BoardIdentity.parse(identity.document() | changes, "here")
    assert why in str(caught.value)


@pytest.mark.parametrize("key", XAVIER.document())
def test_an_identity_is_whole(key: str) -> None:
    document = XAVIER.document()
    del document[key]
    with pytest.raises(ValueError, match=f"here lacks the keys {key}"):
        BoardIdentity.parse(document, "here")


def test_a_board_that_restarts_or_moves_stays_the_same_board() -> None:
    moved = replace(XAVIER, boot_id="99999999-2222-3333-4444-555555555555", address="nvidia@10.0.0.7:22 via me@jump:22")
    assert XAVIER.differences(moved) == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "kv260"}, "name: xavier -> kv260"),
        ({"kind": "virtual machine"}, "kind: hardware -> virtual machine"),
        ({"machine_id": "f" * 32}, f"machine_id: {XAVIER.machine_id} -> {'f' * 32}"),
        ({"host_key": f"SHA256:{'x' * 43}"}, f"host_key: {XAVIER.host_key} -> SHA256:{'x' * 43}"),
        ({"address": None, "host_key": None}, f"host_key: {XAVIER.host_key} -> none"),
    ],
)
def test_what_makes_another_board_is_told(changes: dict[str, Any], told: str) -> None:
    assert XAVIER.differences(replace(XAVIER, **changes)) == (told,)


def test_an_emulated_board_has_other_keys_on_another_machine_and_is_still_the_same() -> None:
    elsewhere = replace(EMULATED_XAVIER, host_key=f"SHA256:{'x' * 43}", address="root@127.0.0.1:5")
    assert EMULATED_XAVIER.differences(elsewhere) == ()
    assert EMULATED_XAVIER.differences(replace(elsewhere, machine_id="harness.name=kv260")) == (
        "machine_id: harness.name=xavier -> harness.name=kv260",
    )
    assert EMULATED_XAVIER.differences(XAVIER)[0] == "kind: emulated -> hardware"
