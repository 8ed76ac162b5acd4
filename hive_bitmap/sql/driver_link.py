"""Lets Spark's data source processes ask the driver, over the loopback interface, for what needs its session.

Spark runs a Python data source in separate processes without a session, hence without metastore and settings. So the
driver that registered the source listens for callers that know its secret.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from threading import Thread
from typing import Any

from hive_bitmap.errors import HiveBitmapError, Unsupported

log = logging.getLogger(__name__)
Address = tuple[str, int]


def serve(answer: Callable[..., Any]) -> tuple[Address, bytes]:
    """Answer callers in a thread until this process ends; returns the address and the secret."""
    secret = secrets.token_bytes(32)
    listener = Listener(("127.0.0.1", 0), authkey=secret)
    Thread(target=_accept, args=(listener, answer), name="hive_bitmap planning", daemon=True).start()
    host, port = listener.address
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


def _accept(listener: Listener, answer: Callable[..., Any]) -> None:
    while True:
        try:
            connection = listener.accept()
        except (OSError, EOFError, AuthenticationError) as e:
            log.info("a connection was refused: %s", e)
            continue
        Thread(target=_reply, args=(connection, answer), daemon=True).start()


def _reply(connection: Connection, answer: Callable[..., Any]) -> None:
    with connection:
        try:
            found = answer(*connection.recv())
        except HiveBitmapError as e:
            found = e
        except Exception as e:  # any error must reach the caller, who waits for an answer
            log.warning("planning failed", exc_info=True)
            found = HiveBitmapError(f"planning failed: {e}")
        connection.send(found)
