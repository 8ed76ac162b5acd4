"""A whole application with a file of queries and Spark's sink for Prometheus: what it leaves, and what HTTP tells."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hive_bitmap.spark.advising.observed import of_file

APPLICATION = """
import sys, urllib.request
import hive_bitmap

conf = {
    "spark.hive_bitmap.advice_file": sys.argv[1] + "/advice.json",
    "spark.hive_bitmap.strategy": "blocks",
    "spark.hive_bitmap.planning_seconds": "60",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
}
def run(queries):
    spark = hive_bitmap.session(sys.argv[1] + "/warehouse", master="local[2]", conf=conf)
    spark.sql("CREATE TABLE IF NOT EXISTS t USING parquet AS SELECT id, int(id % 7) AS k FROM range(1000)")
    hive_bitmap.build(spark, "t", ["k"], if_not_exists=True)
    for number in range(queries):
        spark.sql(f"SELECT id FROM t WHERE k = {number}").collect()
    spark.sql("SELECT count(*) FROM t WHERE k = 1").collect()
    spark.sql("SELECT k FROM t WHERE id = 770077").collect()
    url = spark.sparkContext.uiWebUrl + "/metrics/prometheus"
    print(urllib.request.urlopen(url).read().decode())
    return spark

run(3).stop()
run(2)
"""


@pytest.mark.servers
def test_an_application_leaves_its_queries_and_tells_its_metrics(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", APPLICATION, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    counters = re.findall(r"driver_hive_bitmap_(\w+?)_(?:Count|Value)\{[^}]*\} ([\d.]+)", done.stdout)
    found = [(name, float(value)) for name, value in counters]
    for narrowed in (3, 2):  # another context of the same JVM begins anew
        assert found.count(("scans_narrowed", narrowed)) == 1
    assert found.count(("scans_answered", 1)) == found.count(("scans_leftAlone_not_tested", 1)) == 2
    assert min(value for name, value in found if name == "bytes_saved") > 0
    assert {name for name, _ in found} >= {"refreshes", "refreshes_failed", "refreshes_lagSeconds"}
    seen = of_file(tmp_path / "advice.json")
    assert (seen.queries, seen.uses["default.t", "k"], seen.broken) == (9, 7, 0)
    assert "770077" not in (tmp_path / "advice.json").read_text()
