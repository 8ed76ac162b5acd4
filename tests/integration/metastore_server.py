"""A Hive metastore in a process of its own, on Derby, from the jars that Spark brings: many sessions can share it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pyspark

from hive_bitmap import java

SECONDS = 60  # to answer after the start
SITE = """<configuration>
<property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:;databaseName={folder}/derby;create=true</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>file:{folder}/warehouse</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
</configuration>
"""


class MetastoreServer:
    """A metastore whose tables outlive it: it may be killed and started again, on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        (folder / "conf").mkdir(parents=True)
        (folder / "conf" / "hive-site.xml").write_text(SITE.format(folder=folder))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def conf(self) -> dict[str, str]:
        """What a session needs to use it, and not to wait long where it is down."""
        return {
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{self.port}",
            "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
        }

    def start(self) -> None:
        """Start it, and wait until it answers."""
        jars = Path(pyspark.__file__).parent / "jars"
        command = [
            java.executable(),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            f"-Djava.io.tmpdir={self.folder}",
            f"-Dderby.stream.error.file={self.folder / 'derby.log'}",
            "-cp",
            f"{self.folder / 'conf'}:{jars}/*",
            "org.apache.hadoop.hive.metastore.HiveMetaStore",
            "-p",
            str(self.port),
        ]
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        end = time.monotonic() + SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the metastore did not start: {(self.folder / 'log').read_text()[-3000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def __enter__(self) -> MetastoreServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _answers(self) -> bool:
        with socket.socket() as client:
            client.settimeout(1)
            return client.connect_ex(("127.0.0.1", self.port)) == 0
