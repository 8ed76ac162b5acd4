"""Avoid TCP's delays between a Spark task and its Python worker.

Spark sends the Python worker a function and then its input. If both are small, the input is held back until the
function is acknowledged (Nagle's algorithm, RFC 896), and the acknowledgement is delayed by up to 40 ms (RFC 1122,
4.2.3.2).
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

_OPEN_FILES = Path("/proc/self/fd")


def set_no_delay() -> None:
    """Set TCP_NODELAY and TCP_QUICKACK on all open sockets of this process.

    Does nothing on systems without TCP_QUICKACK or without /proc/self/fd, such as macOS.
    """
    if not hasattr(socket, "TCP_QUICKACK") or not _OPEN_FILES.is_dir():
        return
    for number in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):  # closed in the meantime, or not a TCP socket
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                _set_no_delay(number)


def _set_no_delay(number: int) -> None:
    open_socket = socket.socket(fileno=number)
    try:
        open_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        open_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    finally:
        open_socket.detach()  # leave the descriptor open: it belongs to others
