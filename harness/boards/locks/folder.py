"""A folder shared by users who need not trust each other; each user writes only their own files.

No function follows a link, waits for a file, or writes to another user's file.  All names are looked up in the opened
folder, so it may be moved meanwhile.  A kernel lock (flock) shows whether the process that holds a file is alive: the
kernel releases it when the process ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import BoardError

LARGEST_BYTES = 8192
SHARED = 0o1777  # sticky: users remove only their own files
TEMPORARY = ".part"
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}


@dataclass(frozen=True)
class Found:
    """The content of a file, its owner, and whether a process holds the kernel's lock on it."""

    text: str
    uid: int
    locked: bool


@dataclass(frozen=True)
class SharedFolder:
    """The opened folder; `descriptor` is open during the block of `opened`."""

    path: Path
    descriptor: int

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        with self._explained():
            # Not through `descriptor`: threads and children of a fork have its place in the listing in common.
            listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.descriptor)
            try:
                return sorted(os.listdir(listing))  # noqa: PTH208 - a descriptor has no path
            finally:
                os.close(listing)

    def read(self, name: str) -> Found | None:
        """Read the first bytes of a file; None unless it is known to be a regular file.

        BoardError if this machine cannot open files: then the content is unknown.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._explained():
            try:
                descriptor = os.open(name, flags, dir_fd=self.descriptor)
            except OSError as error:
                if error.errno in EXHAUSTED:
                    raise
                return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            locked = not _try(descriptor, fcntl.LOCK_SH)
            return Found(os.read(descriptor, LARGEST_BYTES).decode(errors="replace"), status.st_uid, locked)
        finally:
            os.close(descriptor)

    def owner(self, name: str) -> int | None:
        """Return the user ID of the owner of a file; None if there is no such file."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_uid
        except OSError:
            return None

    def create(self, name: str, text: str) -> int | None:
        """Create a file that appears complete and locked by this process; None if a file of that name exists.

        Return the descriptor that holds the lock and may be written to.  BoardError if no file can be created.
        """
        with self._explained():
            temporary, descriptor = self._temporary(text)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                at = {"src_dir_fd": self.descriptor, "dst_dir_fd": self.descriptor}
                os.link(temporary, name, follow_symlinks=False, **at)
            except BaseException as error:
                os.close(descriptor)
                if isinstance(error, FileExistsError):
                    return None
                raise
            finally:
                os.unlink(temporary, dir_fd=self.descriptor)
        return descriptor

    def replace(self, name: str, text: str, mode: int = 0o644) -> None:
        """Write the file of that name atomically; BoardError if another user owns it."""
        with self._explained():
            temporary, descriptor = self._temporary(text, mode)
            os.close(descriptor)
            try:
                os.replace(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
            except OSError:
                os.unlink(temporary, dir_fd=self.descriptor)
                raise

    def rewrite(self, descriptor: int, head: str) -> None:
        """Overwrite the first bytes of a file that `create` has returned; BoardError if the disk is not writable."""
        with self._explained():
            os.pwrite(descriptor, head.encode(), 0)

    def own(self, name: str) -> int:
        """Return a descriptor of a file that only this user can open; create a missing file.

        BoardError if another user owns it.
        """
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._explained():
            descriptor = os.open(name, flags | os.O_CREAT, 0o600, dir_fd=self.descriptor)
            status = os.fstat(descriptor)
            if status.st_uid == os.getuid() and stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                return descriptor
            os.close(descriptor)
            raise PermissionError(errno.EPERM, f"{name} belongs to another user")

    def remove(self, name: str) -> None:
        """Remove a file; ignore a missing file and one of another user."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self.descriptor)

    def sweep(self, name: str) -> None:
        """Remove this user's file if no process holds it; keep a newer file of the same name."""
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=self.descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # who sweeps as well goes elsewhere
                there = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
                if os.path.samestat(os.fstat(descriptor), there) and there.st_uid == os.getuid():
                    os.unlink(name, dir_fd=self.descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BoardError(
                f"cannot keep the locks of boards in {self.path}: {error.strerror}",
                "all who use the boards must be able to write there (chmod 1777), and its disk must not be full; "
                "HARNESS_LOCKS names another folder",
            ) from error

    def _temporary(self, text: str, mode: int = 0o644) -> tuple[str, int]:
        name = f".{secrets.token_hex(8)}{TEMPORARY}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
        try:
            _write_all(descriptor, text.encode())
            os.fchmod(descriptor, mode)  # whatever the umask: others read who has the board
        except BaseException:
            os.close(descriptor)
            os.unlink(name, dir_fd=self.descriptor)
            raise
        return name, descriptor


@contextmanager
def opened(path: Path, *, shared: bool) -> Iterator[SharedFolder]:
    """Open the folder at `path`; create a missing one for all users of this machine if `shared`, else for this user.

    BoardError if it cannot be used, or if users could remove files of other users there.
    """
    descriptor = _open(path, shared=shared)
    try:
        yield SharedFolder(path, descriptor)
    finally:
        os.close(descriptor)


def _open(path: Path, *, shared: bool) -> int:
    mode = SHARED if shared else 0o700
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode)
            path.chmod(mode)  # whatever the umask
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise BoardError(
            f"cannot use {path} for the locks of boards: {error.strerror}",
            "it must be a folder, and no link to one; HARNESS_LOCKS names another",
        ) from error
    if shared and not _is_safe(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BoardError(
            f"in {path}, any user may remove another user's lock of a board", f"as its owner, run: chmod +t {path}"
        )
    return descriptor


def _is_safe(mode: int) -> bool:
    return not mode & 0o022 or bool(mode & stat.S_ISVTX)


def _write_all(descriptor: int, content: bytes) -> None:
    """Write the whole content or raise OSError: with a partial ticket, two processes could get the board."""
    while content:
        content = content[os.write(descriptor, content) :]


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
