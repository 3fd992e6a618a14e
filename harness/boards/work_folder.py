"""The work folder of a board, in which no other user can write, replace or redirect anything.

Components are checked from / down.  A component that root or this user owns, in a folder that no other user may write,
can only be replaced by root or this user, so a checked component stays unchanged.  In a folder with the sticky bit,
such as /tmp, others may create entries, but can neither rename nor remove those of root and of this user.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from harness.boards.session import Board
from harness.core.errors import BoardError

TIMEOUT_S = 60.0
FOLDERS = ("bundles", "runs")
DEFAULT = "~/.cache/harness/board"
"""The work folder, in the home of the board's user, if the profile names none."""

# $1: the folder, "" for DEFAULT, $2...: folders in it.  Answers `REASON MODE UID OWN_UID PATH`; `ls -ldn` follows no
# link, and POSIX says what it writes.
CLAIM = r"""
umask 077
set -f
LC_ALL=C
export LC_ALL
own=$(id -u)
folder=$1
shift
path= mode=- uid=-
answer() { printf '%s %s %s %s %s' "$1" "$mode" "$uid" "$own" "${path:-/}"; exit; }
check() {
    [ -e "${path:-/}" ] || [ -L "$path" ] || mkdir "$path"
    said=$(ls -ldn "${path:-/}") || answer missing
    private=$1
    set -- $said
    mode=$1 uid=$3
    case $mode in l*) answer link ;; d*) ;; *) answer file ;; esac
    [ "$uid" = "$own" ] || { [ "$uid" = 0 ] && [ -z "$private" ]; } || answer foreign
    case $mode in
        ?????w???[tT]* | ????????w[tT]*) [ -z "$private" ] || answer writable ;;
        ?????w* | ????????w*) answer writable ;;
    esac
}
if [ -z "$folder" ]; then
    home=$(cd -P "${HOME:-/nonexistent}" && pwd -P) || { path=$HOME; answer homeless; }
    folder=${home%/}/.cache/harness/board
fi
names=$*
IFS=/
set -- $folder
IFS=' '
check ""
for name; do
    [ -n "$name" ] || continue
    path=$path/$name
    check ""
done
check private
work=$path
for name in $names; do
    path=$work/$name
    check private
done
path=$work
answer claimed
"""


class WorkFolderRefused(BoardError):
    """An unusable work folder: it cannot be created, or another user of the board could change its files."""


def claim(board: Board, folder: str | None, elsewhere: str) -> PurePosixPath:
    """Create and check the work folder on the board, `DEFAULT` without a `folder`; return its path.

    `elsewhere` is the hint to choose another one.  WorkFolderRefused names the unsafe component, its owner and mode.
    """
    done = board.run(["sh", "-c", CLAIM, "sh", folder or "", *FOLDERS], TIMEOUT_S)
    reason, mode, uid, own, path = [*done.stdout.decode(errors="surrogateescape").split(" ", 4), *[""] * 5][:5]
    if done.status == 0 and reason == "claimed":
        return PurePosixPath(path)
    said = done.stderr.decode(errors="replace").strip()[-300:] or f"exit status {done.status}"
    found = f"(mode {mode}, owner uid {uid})"
    what, hint = {
        "homeless": (f"the home of the user cannot be used: {said}", ""),
        "missing": (f"{path} cannot be created: {said}", "create it there, or "),
        "file": (f"{path} is no folder {found}", "remove it, or "),
        "link": (f"{path} is a symbolic link {found}, which may lead to the files of another user", "remove it, or "),
        "foreign": (
            f"{path} {found} does not belong to this user (uid {own}): its owner can replace what runs there",
            "",
        ),
        "writable": (f"other users can replace what runs in {path} {found}", f"chmod go-w {path}, or "),
    }.get(reason, (f"it cannot be checked: {said}", "does the board have id, ls, mkdir and a POSIX shell? if so, "))
    raise WorkFolderRefused(f"the work folder {folder or DEFAULT} is refused: {what}", f"{hint}{elsewhere}")
