"""A running Hive metastore, as the tests see it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from thrift.protocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport import TSocket, TTransport

SECONDS = 60  # until a call that gets no answer fails


@dataclass(frozen=True)
class Metastore:
    """Where a metastore listens, where it puts external tables, and what else a Spark session needs to use it."""

    port: int
    version: str
    warehouse: Path
    client: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def conf(self) -> dict[str, str]:
        """The settings of a Spark session that uses it, and does not wait long where it is down."""
        return {
            "spark.hadoop.hive.metastore.uris": self.uri,
            "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
            **self.client,
        }


def ask(port: int) -> None:
    """Call `get_all_databases` of the metastore on this port; raises unless it answers."""
    socket.create_connection(("127.0.0.1", port), SECONDS).close()  # of a refusal Thrift would write to the log
    connection = TSocket.TSocket("127.0.0.1", port)
    connection.setTimeout(SECONDS * 1000)
    transport = TTransport.TBufferedTransport(connection)
    transport.open()
    try:
        protocol = TBinaryProtocol.TBinaryProtocol(transport)
        protocol.writeMessageBegin("get_all_databases", TMessageType.CALL, 0)
        protocol.writeFieldStop()  # it has no arguments
        protocol.writeMessageEnd()
        transport.flush()
        _, kind, _ = protocol.readMessageBegin()
        if kind != TMessageType.REPLY:
            raise ConnectionError("the metastore answers with an exception")
    finally:
        transport.close()
