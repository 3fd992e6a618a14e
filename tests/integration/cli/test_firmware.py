"""What `harness firmware` refuses before it looks at an SDK or a board; its steps are in
tests/integration/targets/tiovx/test_install.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.command import User

AT_HOME = "{address: {host: 127.0.0.1, port: 9}"


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("board", "local", "code", "message"),
    [
        ("tda4vm", "", 2, "board tda4vm is emulated: it has no firmware"),
        ("host", "", 2, "board host is this machine, which cannot continue after its own restart"),
        ("xavier", f"xavier: {AT_HOME}}}", 2, "board xavier: no item has target tiovx:c7x or vitis"),
        ("tda4vm", f"tda4vm: {AT_HOME}}}", 3, "board tda4vm: target tiovx needs the headers and the library of TIOVX"),
        ("tda4", "", 2, "did you mean tda4vm?"),
    ],
)
def test_a_board_that_cannot_get_a_firmware_is_refused(
    tmp_path: Path, cache: Path, board: str, local: str, code: int, message: str
) -> None:
    user = User(tmp_path, cache).with_local(local)
    ended = user.harness("firmware", "--board", board, TARGET_FS="")
    assert ended.code == code
    assert message in ended.err
