"""What a server sets for the safety of its tables, no session can undo."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hive_bitmap.spark.metastore import jvm_settings, session_settings
from hive_bitmap.spark.metastore.jvm_settings import WORKER_PYTHON, enforced

READS, OWNERS, ROOTS = (f"hive_bitmap.{name}" for name in ("engine_reads_only", "trusted_owners", "trusted_roots"))


@pytest.mark.parametrize(
    ("server", "session", "wanted"),
    [
        ({READS: "true"}, {READS: "false"}, {READS: "true"}),
        ({READS: " TRUE "}, {}, {READS: " TRUE "}),
        ({READS: "yes"}, {READS: "false"}, {READS: "yes"}),  # where it is read, it is refused
        ({READS: "false"}, {READS: "true"}, {READS: "true"}),
        ({}, {READS: "true"}, {READS: "true"}),
        ({OWNERS: "a,b"}, {OWNERS: "b, c"}, {OWNERS: "b"}),
        ({OWNERS: "a"}, {OWNERS: ""}, {OWNERS: ""}),
        ({OWNERS: "a"}, {}, {OWNERS: "a"}),
        ({OWNERS: ""}, {OWNERS: "me"}, {OWNERS: ""}),
        ({}, {OWNERS: "me"}, {OWNERS: "me"}),
        ({ROOTS: "/w"}, {ROOTS: "/"}, {ROOTS: ""}),
        ({"other": "x"}, {"other": "y"}, {"other": "y"}),
    ],
)
def test_a_session_may_only_be_stricter(
    server: dict[str, str], session: dict[str, str], wanted: dict[str, str]
) -> None:
    assert enforced(server, session) == wanted


def test_a_session_of_the_application_trusts_and_runs_what_that_does(spark: SparkSession) -> None:
    own = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # type: ignore[attr-defined]
    told = {OWNERS: "bob", f"spark.{ROOTS}": "/bobs", READS: "true"}
    for name, value in {**told, WORKER_PYTHON: "/bin/false", "hive_bitmap.strategy": "rows"}.items():
        own.conf.set(name, value)
    assert session_settings.settings(own)[OWNERS] == "bob" and jvm_settings.has_own_python(own)
    jvm_settings.of_application(own)
    found = session_settings.settings(own)
    assert not {OWNERS, ROOTS, READS} & set(found) and not jvm_settings.has_own_python(own)
    assert found["hive_bitmap.strategy"] == "rows"
