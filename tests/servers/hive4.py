"""HiveServer2 of Hive 4.0.1 on a metastore of the same version; Tez runs in the process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.servers import jars, process
from tests.servers.hiveserver import HiveServer, run
from tests.servers.metastore import Metastore
from tests.servers.metastore4 import LOGGING, VERSION, java_command


@contextlib.contextmanager
def serving(folder: Path, metastore: Metastore) -> Iterator[HiveServer]:
    """Serve out of `folder`, until the block ends. Raises jars.Unavailable where Java or the jars cannot be had."""
    server = HiveServer("127.0.0.1", process.free_port(), metastore.warehouse, VERSION)
    conf = folder / "conf"
    conf.mkdir(parents=True)
    hadoop = process.configuration(_hadoop_settings(folder))
    (conf / "core-site.xml").write_text(hadoop)
    (conf / "tez-site.xml").write_text(hadoop)
    (conf / "hive-site.xml").write_text(process.configuration(_settings(folder, server, metastore)))
    for name in ("log4j2.properties", "hive-log4j2.properties"):
        (conf / name).write_text(LOGGING)
    command = java_command(folder, jars.resolve("hive4"), "768m")
    command.append("org.apache.hive.service.server.HiveServer2")
    environment = {"HIVE_CONF_DIR": str(conf), "HADOOP_HOME": str(folder), "HIVE_HOME": str(folder)}
    with process.serving(command, folder, lambda: _ask(server), environment):
        yield server


def _ask(server: HiveServer) -> None:
    with contextlib.closing(server.connect()) as connection:
        run(connection, "SHOW DATABASES")


def _hadoop_settings(folder: Path) -> dict[str, str]:
    return {
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": f"{folder}/hadoop",
        "mapreduce.framework.name": "local",
        "mapreduce.task.io.sort.mb": "16",
        "tez.local.mode": "true",
        "tez.local.mode.without.network": "true",
        "tez.runtime.optimize.local.fetch": "true",
        "tez.ignore.lib.uris": "true",
        "tez.staging-dir": f"{folder}/tez",
        "tez.runtime.io.sort.mb": "16",
        "tez.am.inline.task.execution.max-tasks": "2",
        "tez.history.logging.service.class": "org.apache.tez.dag.history.logging.impl.SimpleHistoryLoggingService",
    }


def _settings(folder: Path, server: HiveServer, metastore: Metastore) -> dict[str, str]:
    return {
        "hive.metastore.uris": metastore.uri,
        "hive.metastore.warehouse.external.dir": f"file:{metastore.warehouse}",
        "hive.execution.engine": "tez",
        "hive.tez.container.size": "256",
        "hive.mapred.local.mem": "0",
        "hive.exec.scratchdir": f"{folder}/scratch",
        "hive.exec.local.scratchdir": f"{folder}/local-scratch",
        "hive.downloaded.resources.dir": f"{folder}/resources",
        "hive.exec.submit.local.task.via.child": "false",
        "hive.stats.autogather": "false",
        "hive.async.log.enabled": "false",
        "hive.query.results.cache.enabled": "false",
        "hive.notification.event.poll.interval": "0s",
        "hive.privilege.synchronizer": "false",
        "hive.support.concurrency": "false",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager",
        "hive.server2.enable.doAs": "false",
        "hive.server2.thrift.bind.host": server.host,
        "hive.server2.thrift.port": str(server.port),
        "hive.server2.authentication": "NONE",
        "hive.server2.webui.port": "0",
        "hive.server2.logging.operation.enabled": "false",
        "hive.server2.materializedviews.registry.impl": "DUMMY",
        "hive.server2.max.start.attempts": "1",
        "hive.server2.tez.initialize.default.sessions": "false",
    }
