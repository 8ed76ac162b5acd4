"""Random queries over random forms of the star schema, before and after accidents, through plain `spark.sql`.

The rows and columns are those with the optimizer rule off; a failure inside is no answer, as the rule is strict.

A seed makes the tables, their indexes, the queries and the accidents. `--long N` takes N more seeds, many more queries
of each, and every strategy for each query; `--seed S` begins with seed S.
"""

from __future__ import annotations

import logging
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hive_bitmap
from hive_bitmap.spark.preparing import index_lookup
from hive_bitmap.spark.reading import aggregates
from hive_bitmap.spark.registry import catalog
from tests.asking import by_index, by_spark, difference, told, under
from tests.integration import random_tables as making
from tests.integration.random_tables import Table
from tests.spark.catalyst import random_queries, random_star

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.random
log = logging.getLogger(__name__)
WAYS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "rows": {"strategy": "rows"},
    "blocks": {"strategy": "blocks"},
    "files": {"strategy": "files"},
    "full scan": {"strategy": "full scan"},
    "index only": {"strategy": "index only"},
    "engine reads only": {"strategy": "files", "engine_reads_only": "true"},
    "engine's blocks only": {"strategy": "blocks", "engine_reads_only": "true"},
}
SHORT, LONG = (2, 12, 1), (3, 50, 4)  # times that accidents may happen between, queries, ways of each query
MANY = 3000  # more rows are not compared one by one
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # quicker for little data
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.parquet.filterPushdown": "false",  # Spark's pushdown loses NaN and -0.0 of files that pyarrow wrote
    "spark.sql.orc.filterPushdown": "false",
}
_LITERAL = re.compile(r"(?<== )(\d{1,9}|'\w+')(?![\w.'])")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first = metafunc.config.getoption("--seed")
    metafunc.parametrize("seed", range(first, first + max(1, metafunc.config.getoption("--long"))))


@pytest.fixture
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with settings for little data."""
    with under(spark, _SETTINGS):
        yield spark


def test_answers_are_sparks(
    quick: SparkSession,
    database: str,
    tmp_path: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    for module in (index_lookup, aggregates):  # every third index is one that is too large for the driver
        monkeypatch.setattr(module, "DRIVER_INDEX_BYTES", -1 if seed % 3 == 1 else 1 << 28)
    times, queries, ways = LONG if pytestconfig.getoption("--long") else SHORT
    rng = random.Random(f"tables {seed}")
    tables = random_star.make(quick, rng, database, tmp_path, more=5 if times == LONG[0] else 3)
    wrong: list[str] = []
    done: Counter[str] = Counter()
    for time in range(times):
        for table in rng.sample(list(tables.values()), 3 if time else 0):
            _accident(quick, rng, table)
        for number in range(queries):
            name = f"seed {seed}, time {time}, query {number}"
            for differs in _check(quick, random.Random(name), tables, ways, done):
                wrong.append(f"{name}\n{differs}")
                log.error(wrong[-1])
        log.warning("seed %d, time %d: %s, %d wrong", seed, time, dict(done), len(wrong))
    long = " --long 1" if ways > 1 else ""
    again = f'make test T="tests/spark/catalyst/test_random_selects.py --seed {seed}{long}"'
    story = "\n".join(f"{table.name}: {table.story}" for table in tables.values())
    assert not wrong, "\n\n".join([*wrong, story, f"again: {again}"])
    used = sum(count for name, count in done.items() if name.endswith(("narrowed", "answered")))
    assert used >= times * queries * ways / 4, done


def _accident(spark: SparkSession, rng: random.Random, table: Table) -> None:
    """Files or the index change; now and then the index is rebuilt."""
    _, indexes = catalog.table_and_indexes(spark, table.name)
    folders = [held for one in indexes for held in catalog.segments(spark, one)]
    rng.choice(making.HARMS)(spark, rng, table, folders)
    if indexes and rng.random() < 0.2:
        hive_bitmap.rebuild(spark, table.name)
        table.story.append("rebuilt")
    spark.catalog.refreshTable(table.name)


def _check(
    spark: SparkSession, rng: random.Random, tables: Mapping[str, Table], ways: int, done: Counter[str]
) -> Iterator[str]:
    """What is wrong with the answers to a random query, each tried in so many ways."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    named = {name: _columns(name, table) for name, table in tables.items()}
    text = random_queries.query(rng, named)
    text, arguments = _with_parameters(rng, text) if rng.random() < 0.15 else (text, None)
    chosen = rng.sample(list(WAYS), ways)
    try:
        wanted = by_spark(spark, lambda session: session.sql(text, args=arguments).limit(MANY + 1))
        if len(wanted.rows) > MANY:
            text = f"SELECT count(*), sum(CAST(xxhash64(*) AS DECIMAL(38,0))) FROM ({text}) many"
            wanted = by_spark(spark, text, arguments)
    except (PySparkException, Py4JJavaError) as e:  # not SQL in these types, or a value that ANSI refuses
        done["refused by Spark"] += 1
        log.info("refused: %s\n%s", str(e).partition("\n")[0], text)
        return
    done["queries"] += 1
    done["queries with rows"] += bool(wanted.rows)
    ordered = " ORDER BY " in text.rpartition(")")[2] and "0.0" not in "".join(wanted.rows)
    for way in chosen:
        try:
            done[f"by {way}"] += 1
            acted = Counter(action for _, action in told(spark, text, args=arguments, **WAYS[way]))
            done.update({f"by {way}, scans {action}": count for action, count in acted.items()})
            found = by_index(spark, text, args=arguments, **WAYS[way])
        except Exception as e:  # noqa: BLE001 - whatever it is, Spark had an answer
            yield f"{way}: {type(e).__name__} {str(e)[:800]}\n{text}\n{arguments or ''}"
        else:
            if wrong := difference(found, wanted, ordered=ordered):
                yield f"{way}: {wrong}\n{text}\n{arguments or ''}"


def _columns(name: str, table: Table) -> dict[str, str]:
    columns = {**table.columns, **table.partitioned}
    return {column: kind for column, kind in columns.items() if (name, column) != ("flights", "day")}


def _with_parameters(rng: random.Random, text: str) -> tuple[str, dict[str, Any] | None]:
    """Some literals of a query as named parameters."""
    arguments: dict[str, Any] = {}

    def parameter(match: re.Match[str]) -> str:
        literal, name = match.group(), f"p{len(arguments)}"
        if rng.random() < 0.4:
            return literal
        arguments[name] = literal[1:-1] if literal.startswith("'") else int(literal)
        return f":{name}"

    return _LITERAL.sub(parameter, text), arguments or None
