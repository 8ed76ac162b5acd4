"""A process ends in peace while threads of it read by DuckDB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PROGRAM = """
import sys, threading
import duckdb
from hive_bitmap.core.formats.duckdb_cursors import table

begun = threading.Semaphore(0)

def read():
    while True:
        try:
            table("SELECT * FROM read_parquet(?)", [sys.argv[1]])
        except duckdb.Error as e:
            assert str(e) == "this process is ending", e
            return
        begun.release()

for _ in range(3):
    threading.Thread(target=read, daemon=True).start()
for _ in range(20):
    begun.acquire()
"""


def test_a_process_that_ends_while_threads_read_neither_aborts_nor_prints(tmp_path: Path) -> None:
    """Without the gate, it is aborted with `exception not rethrown`, or prints `nanobind: leaked 30 instances`."""
    pq.write_table(pa.table({"a": range(100_000)}), tmp_path / "a.parquet")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "a.parquet")], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
