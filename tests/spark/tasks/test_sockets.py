"""Test the socket options that a task sets."""

from __future__ import annotations

import socket
import sys

import pytest

from hive_bitmap.spark.tasks import distribution


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux acknowledges at once")
def test_connections_send_at_once_and_stay_open() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as near, server.accept()[0] as far:
        assert not near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        local, other = socket.socketpair()
        with local, other:
            distribution.set_no_delay()
            assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert far.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            for one, another in ((near, far), (local, other)):
                one.sendall(b"still open")
                assert another.recv(64) == b"still open"


def test_nothing_happens_where_the_system_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_QUICKACK", raising=False)
    with socket.socket() as unconnected:
        distribution.set_no_delay()
        assert not unconnected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
