"""The guest of emulated boards, which is downloaded and packed once for all tests."""

from __future__ import annotations

from pathlib import Path

from harness.boards import workspace


def sharing_guest(cache: Path) -> Path:
    """Let an empty cache have the guest of the user's own; return that cache."""
    guest = workspace.cache_folder() / "guest"
    guest.mkdir(mode=0o700, parents=True, exist_ok=True)
    (cache / "guest").symlink_to(guest)
    return cache
