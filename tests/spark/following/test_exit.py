"""The end of a program: it waits for refreshes, unless it has stopped Spark, and says nothing of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs import run_program

PROGRAM = """
import json, sys
import hive_bitmap
warehouse, *acts = sys.argv[1:]
spark = hive_bitmap.session(warehouse, master="local[2]")
for act in acts:
    if act == "make":
        spark.sql("CREATE TABLE t USING parquet AS SELECT CAST(id % 7 AS INT) AS k FROM range(100)")
        hive_bitmap.build(spark, "t", ["k"], auto_refresh=True)
    elif act == "insert":
        spark.sql("INSERT INTO t VALUES (1)")
    elif act == "fail":
        raise ValueError("of the program itself")
    elif act == "stop":
        spark.stop()
    else:
        [status] = hive_bitmap.show(spark, "t")
        print(json.dumps([status.unindexed, status.fresh]))
"""


@pytest.mark.servers
def test_programs_that_end(tmp_path: Path) -> None:
    waited = run_program(PROGRAM, tmp_path / "w", "make", "insert", folder=tmp_path)
    assert waited.returncode == 0 and "Traceback" not in waited.stderr and "refreshed" not in waited.stderr
    failed = run_program(PROGRAM, tmp_path / "w", "show", "insert", "fail", folder=tmp_path)
    unindexed, fresh = json.loads(failed.stdout.splitlines()[-1])
    assert unindexed == 0 and failed.returncode == 1 and failed.stderr.count("Traceback") == 1
    stopped = run_program(PROGRAM, tmp_path / "w", "show", "insert", "stop", folder=tmp_path)
    assert json.loads(stopped.stdout.splitlines()[-1]) == [0, fresh + 1]
    assert stopped.returncode == 0 and "Traceback" not in stopped.stderr and "refreshed" not in stopped.stderr
