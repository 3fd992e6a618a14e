"""Identities of boards, for tests that need no board."""

from __future__ import annotations

from dataclasses import replace

from harness.boards.identity import BoardIdentity

HOST = BoardIdentity(
    name="host",
    kind="this machine",
    address=None,
    host_key=None,
    machine_id="3d1219c7c4c5404aaa1f6d2a48adfda4",
    boot_id="6fd5d771-9aad-4e68-a481-772cae79e7dd",
)
XAVIER = BoardIdentity(
    name="xavier",
    kind="hardware",
    address="nvidia@xavier.lab:22",
    host_key=f"SHA256:{'k' * 43}",
    machine_id="0123456789abcdef0123456789abcdef",
    boot_id="11111111-2222-3333-4444-555555555555",
)
EMULATED_XAVIER = replace(XAVIER, kind="emulated", address="root@127.0.0.1:40001", machine_id="harness.name=xavier")
