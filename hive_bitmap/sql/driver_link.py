"""Lets Spark's data source processes ask the driver, over the loopback interface, for what needs its session.

Spark runs a Python data source in separate processes without a session, hence without metastore and settings. So the
driver that registered the source listens for callers that know its secret. Any local program can connect, so each
caller proves itself in a thread of its own and within a time, and nobody waits for the others.
"""

from __future__ import annotations

import logging
import secrets
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from threading import Lock, Thread
from typing import Any

from hive_bitmap.errors import HiveBitmapError, Unsupported

log = logging.getLogger(__name__)
Address = tuple[str, int]
MOST_UNPROVEN = 64  # callers that have not proved themselves yet; beyond it the one that waits longest is closed
SECONDS_TO_PROVE = 10  # for each message that a caller has to send


def serve(answer: Callable[..., Any]) -> tuple[Address, bytes]:
    """Answer callers in threads until this process ends; returns the address and the secret."""
    secret = secrets.token_bytes(32)
    listener = socket.create_server(("127.0.0.1", 0), backlog=MOST_UNPROVEN)
    waiting = _Waiting()
    Thread(target=_accept, args=(listener, secret, answer, waiting), name="hive_bitmap planning", daemon=True).start()
    host, port = listener.getsockname()
    return (host, port), secret


def ask(address: Address, secret: bytes, *question: Any) -> Any:
    """Return the driver's answer. Raises what it raised, and Unsupported if it cannot be reached."""
    try:
        with Client(address, authkey=secret) as connection:
            connection.send(question)
            answer = connection.recv()
    except (OSError, EOFError, AuthenticationError) as e:
        raise Unsupported(
            f"the Python process that registered hive_bitmap does not answer at {address[0]}:{address[1]} ({e}): call "
            "hive_bitmap.register(spark) in a driver that runs on the machine of the session"
        ) from e
    if isinstance(answer, Exception):
        raise answer
    return answer


class _Waiting:
    """The callers that have not proved themselves yet."""

    def __init__(self) -> None:
        self._callers: OrderedDict[int, socket.socket] = OrderedDict()
        self._lock = Lock()

    def add(self, caller: socket.socket) -> None:
        """Add a caller; if there are too many, end the connection of the one that waits longest."""
        with self._lock:
            self._callers[id(caller)] = caller
            if len(self._callers) > MOST_UNPROVEN:
                _, oldest = self._callers.popitem(last=False)
                _end(oldest)

    def remove(self, caller: socket.socket) -> None:
        with self._lock:
            self._callers.pop(id(caller), None)


def _accept(listener: socket.socket, secret: bytes, answer: Callable[..., Any], waiting: _Waiting) -> None:
    while True:
        try:
            caller, _ = listener.accept()
        except OSError as e:
            log.info("a connection was refused: %s", e)
            continue
        waiting.add(caller)
        Thread(target=_serve, args=(caller, secret, answer, waiting), daemon=True).start()


def _serve(caller: socket.socket, secret: bytes, answer: Callable[..., Any], waiting: _Waiting) -> None:
    """Answer one caller, unless it does not prove itself in time."""
    limit = struct.pack("ll", SECONDS_TO_PROVE, 0)
    with caller, Connection(caller.dup().detach()) as connection:
        try:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            deliver_challenge(connection, secret)
            answer_challenge(connection, secret)
            question = connection.recv()
        except (OSError, EOFError, AuthenticationError) as e:
            log.info("a caller was refused: %s", e)
            return
        finally:
            waiting.remove(caller)
        _reply(connection, answer, question)


def _end(caller: socket.socket) -> None:
    try:
        caller.shutdown(socket.SHUT_RDWR)
    except OSError as e:
        log.info("a caller has left already: %s", e)


def _reply(connection: Connection, answer: Callable[..., Any], question: Any) -> None:
    try:
        found = answer(*question)
    except HiveBitmapError as e:
        found = e
    except Exception as e:  # any error must reach the caller, who waits for an answer
        log.warning("planning failed", exc_info=True)
        found = HiveBitmapError(f"planning failed: {e}")
    connection.send(found)
