"""labgrid's programs without their start: a process that has imported them, and forks for every call.

    build/labgrid/bin/python3 ready_labgrid.py FOLDER

Most of what a short call takes is its imports.  `FOLDER/labgrid-client` and its like hand their words, environment and
streams over, and end as the forked process does; when they are killed, so is that.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

PROGRAMS = ("client", "coordinator", "exporter")
LONGEST = 1 << 18
CALL = """\
#!{python} -IS
import json, os, socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect({socket!r})
asked = json.dumps([{name!r}, sys.argv, dict(os.environ), os.getcwd()]).encode()
socket.send_fds(link, [asked], [0, 1, 2])
sys.exit(int(link.recv(9) or 1))
"""


def serve(folder: Path) -> None:
    """Fork for every call; in the forked process, be the program that was called."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(folder / "socket"))
        server.listen()
        for name in PROGRAMS:
            call = folder / f"labgrid-{name}"
            call.write_text(CALL.format(python=sys.executable, socket=str(folder / "socket"), name=name))
            call.chmod(0o755)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            link, _ = server.accept()
            if os.fork() == 0:
                server.close()
                become(link)
            link.close()


def become(link: socket.socket) -> None:
    """Be the program, as somebody has called it, to its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked, streams, _, _ = socket.recv_fds(link, LONGEST, 3)
    for stream, theirs in enumerate(streams):
        os.dup2(theirs, stream)
        os.close(theirs)
    name, sys.argv, environment, folder = json.loads(asked)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=end_with, args=(link,), daemon=True).start()
    code = 1
    try:
        sys.modules[f"labgrid.remote.{name}"].main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        link.send(str(code).encode())
        os._exit(code)


def end_with(link: socket.socket) -> None:
    """End when the caller does."""
    link.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    for each in PROGRAMS:
        __import__(f"labgrid.remote.{each}")
    serve(Path(sys.argv[1]))
