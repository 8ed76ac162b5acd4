"""Small messages between a task and Spark, without the waiting that TCP does by itself.

Spark sends a task its function and then its input. Where both are small, the second waits until the first is
acknowledged (Nagle, RFC 896), and the acknowledgement waits up to 40 ms for something to go with (RFC 1122, 4.2.3.2).
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

_OPEN_FILES = Path("/proc/self/fd")


def set_no_delay() -> None:
    """Acknowledge at once what this process's sockets have got, and send at once what they are given to send.

    Does nothing where the system does not say which sockets are open, or cannot acknowledge at once (macOS).
    """
    if not hasattr(socket, "TCP_QUICKACK") or not _OPEN_FILES.is_dir():
        return
    for number in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):  # closed by now, or of another protocol
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                _set_no_delay(number)


def _set_no_delay(number: int) -> None:
    open_socket = socket.socket(fileno=number)
    try:
        open_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        open_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    finally:
        open_socket.detach()  # it is not ours to close
