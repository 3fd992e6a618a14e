"""SHA-256 of files: always that of their bytes, whatever the cache says."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from harness.core import file_digest


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("size", [10, file_digest.SMALL, 3 * file_digest.SMALL])
def test_it_is_that_of_the_bytes_also_of_a_file_that_was_replaced_under_its_old_date(tmp_path: Path, size: int) -> None:
    path, cache = tmp_path / "cc1", tmp_path / "cache"
    path.write_bytes(b"a" * size)
    before = path.stat()
    assert file_digest.of_file(path, cache) == file_digest.of_file(path, cache) == sha256(path)
    path.write_bytes(b"b" * size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert file_digest.of_file(path, cache) == sha256(path)


def test_a_large_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "cc1", tmp_path / "cache"
    path.write_bytes(b"a" * file_digest.SMALL)
    known = file_digest.of_file(path, cache)
    monkeypatch.delattr(hashlib, "file_digest")
    assert file_digest.of_file(path, cache) == known


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '[["other"], "0"]', '["x"]'])
def test_a_damaged_cache_is_not_believed(tmp_path: Path, content: str) -> None:
    path, cache = tmp_path / "cc1", tmp_path / "cache"
    path.write_bytes(b"a" * file_digest.SMALL)
    file_digest.of_file(path, cache)
    [place] = (cache / "digests").iterdir()
    place.write_text(content)
    assert file_digest.of_file(path, cache) == sha256(path)


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    path, cache = tmp_path / "cc1", tmp_path / "cache"
    path.write_bytes(b"a" * file_digest.SMALL)
    cache.write_text("a file in the place")
    assert file_digest.of_file(path, cache) == sha256(path)
