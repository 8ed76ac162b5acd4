"""Random tables under random accidents: whatever happened, an answer through an index is Spark's own.

The oracle is `spark.table(t).where(p)` right after a refresh, row by row, as Spark's reader shows them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import hive_bitmap
from hive_bitmap.core.formats import FORMATS
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import STRATEGIES
from hive_bitmap.errors import FileChanged, InvalidPredicate, Unsupported
from hive_bitmap.spark.preparing import index_lookup
from hive_bitmap.spark.registry import catalog
from tests.integration import random_tables as making
from tests.integration.random_tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.random, pytest.mark.turn(2)]
PUSHDOWN = ("spark.sql.parquet.filterPushdown", "spark.sql.orc.filterPushdown")
USUAL = 1  # random tables; more of them with --long
PREDICATES = 3


@pytest.fixture
def calm(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark without its pushdown, which loses NaN and -0.0 of files that pyarrow wrote."""
    for name in PUSHDOWN:
        spark.conf.set(name, "false")
    yield spark
    for name in PUSHDOWN:
        spark.conf.unset(name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(USUAL + metafunc.config.getoption("--long")))


def test_answers_are_sparks_whatever_happened(
    calm: SparkSession, database: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 3 == 1:  # every third index is one that is too large for the driver
        monkeypatch.setattr(index_lookup, "DRIVER_INDEX_BYTES", -1)
    check_seed(calm, database, tmp_path, seed)


def check_seed(spark: SparkSession, database: str, tmp_path: Path, seed: int, home: str = "") -> None:
    """A table, its indexes and what befalls them, in a folder of a store if there is a `home`."""
    rng = random.Random(seed)
    table = making.make_table(spark, rng, database, tmp_path, home)
    _build(spark, rng, table)
    for _ in range(rng.choice([0, 1, 1, 2])):
        for harm in rng.sample(making.HARMS, rng.randint(1, 2)):
            harm(spark, rng, table, _index_folders(spark, table))
            making.bring(spark, table)
        if rng.random() < 0.2:
            hive_bitmap.rebuild(spark, table.name)
            table.story.append("rebuilt")
        for _ in range(PREDICATES):
            _check(spark, rng, table, making.predicate(rng, table))
    _check(spark, rng, table, None)


def _build(spark: SparkSession, rng: random.Random, table: Table) -> None:
    names = [*table.columns, "id"]
    for number in range(rng.randint(1, 3)):
        columns = rng.sample(names, rng.choice([1, 1, 2]) if len(names) > 1 else 1)
        listed = {"type": rng.choice(["COMPACT", "AGGREGATE"])}
        kind = listed if rng.random() < 0.3 else {"encoding": rng.choice(["gap", "plain", "ewah", "roaring"])}
        hive_bitmap.build(spark, table.name, [columns], name=f"i{number}", **kind)
        table.story.append(f"index {columns} {kind}")


def _index_folders(spark: SparkSession, table: Table) -> list[str]:
    _, indexes = catalog.table_and_indexes(spark, table.name)
    return [folder for index in indexes for folder in catalog.segments(spark, index)]


def _check(spark: SparkSession, rng: random.Random, table: Table, predicate: str | None) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    told = f"{table.story}\nwhere {predicate}"
    spark.catalog.refreshTable(table.name)
    try:
        frame = spark.table(table.name).where(predicate) if predicate else spark.table(table.name)
        oracle = frame.toArrow()
    except (PySparkException, Py4JJavaError):  # not SQL in these types, or a value that ANSI refuses
        return
    expected = _rows(oracle)
    for strategy in (None, *STRATEGIES):
        try:
            found = hive_bitmap.scan(spark, table.name, predicate, strategy=strategy)
        except Unsupported:
            continue
        assert found.schema == frame.schema, f"{strategy} {told}"
        assert _rows(found.toArrow()) == expected, f"{strategy} {told}"
    for strategy in (None, *STRATEGIES):
        try:
            counted = hive_bitmap.count(spark, table.name, predicate, strategy=strategy)
        except Unsupported:
            continue
        assert counted == oracle.num_rows, f"count {strategy} {told}"
    where = _places(spark, table, predicate)
    for strategy in (None, *STRATEGIES):
        try:
            _check_plan(hive_bitmap.plan(spark, table.name, predicate, strategy=strategy), where, told)
        except Unsupported:
            continue
    _check_offsets(spark, table, predicate, where, told)


def _rows(found: pa.Table) -> Counter[str]:
    names = found.column_names
    return Counter(repr([(name, row[name]) for name in names]) for row in found.to_pylist())


def _places(spark: SparkSession, table: Table, predicate: str | None) -> Counter[tuple[str, int]]:
    """Matching rows of each (path, offset of the block), told by the `id`s of the rows of each block."""
    frame = spark.table(table.name).where(predicate) if predicate else spark.table(table.name)
    matching: dict[str, set[int]] = {}
    for path, ident in frame.selectExpr("_metadata.file_path AS f", "id").collect():
        scheme, _, rest = unquote(path).partition(":")
        where = unquote(path) if table.away else f"{scheme}:{rest.replace('//', '/')}"
        matching.setdefault(where, set()).add(ident)
    found: Counter[tuple[str, int]] = Counter()
    format = FORMATS[table.format]
    for path, ids in matching.items():
        handle = format.open_file(str(table.here(path)))
        blocks = format.blocks(handle)
        for block, offset in enumerate(blocks.offset.tolist()):
            if blocks.rows[block]:
                held = _ids(table, path, block)
                if hits := len(ids.intersection(held)):
                    found[path, offset] = hits
    return found


def _ids(table: Table, path: str, block: int) -> list[Any]:
    import pyarrow.orc as orc
    import pyarrow.parquet as pq

    local = table.here(path)
    if table.format == "parquet":
        return pq.ParquetFile(local).read_row_group(block, columns=["id"])["id"].to_pylist()
    return orc.ORCFile(str(local)).read_stripe(block, columns=["id"]).column("id").to_pylist()


def _check_plan(plan: Plan, where: Counter[tuple[str, int]], told: str) -> None:
    """Every block with matching rows is selected, with at least as many rows."""
    if plan.files.num_rows == 0:
        assert plan.strategy == "full scan" or not where, told
        return
    files = plan.files.to_pylist()
    scanned = {file["path"] for file in files if file["scanned"]}
    selected = {(files[b["file"]]["path"], b["offset"]): b["selected"] for b in plan.blocks.to_pylist() if b["rows"]}
    for (path, offset), hits in where.items():
        assert path in scanned or selected.get((path, offset), 0) >= hits, f"{path} {offset} {told}"


def _check_offsets(
    spark: SparkSession, table: Table, predicate: str | None, where: Counter[tuple[str, int]], told: str
) -> None:
    target = table.root.parent / f"offsets-{random.random()}"
    try:
        hive_bitmap.write_offsets(spark, table.name, predicate, str(target), utf8=True)
    except Unsupported:
        return
    listed = set()
    for line in target.read_bytes().decode().splitlines():
        path, offsets = line.split("\x01")
        listed |= {(path, int(offset)) for offset in offsets.split("\x02")}
    assert set(where) <= listed, told


def test_a_query_that_is_planned_is_never_short_of_rows(calm: SparkSession, database: str, tmp_path: Path) -> None:
    """Files that change between `scan` and its action: Spark's rows of before or after, or FileChanged."""
    for seed in range(3):
        rng = random.Random(1000 + seed)
        table = making.make_table(calm, rng, database, tmp_path)
        _build(calm, rng, table)
        predicate = making.predicate(rng, table)
        for strategy in ("rows", "blocks", "files"):
            try:
                found = hive_bitmap.scan(calm, table.name, predicate, strategy=strategy)
            except (Unsupported, InvalidPredicate):
                continue
            making.harm_file(calm, rng, table, [])
            calm.catalog.refreshTable(table.name)
            try:
                expected = _rows(calm.table(table.name).where(predicate).toArrow())
                assert _rows(found.toArrow()) == expected, f"{strategy} {table.story} {predicate}"
            except Exception as e:  # noqa: BLE001 - PythonException and Py4JJavaError have no other parent
                assert FileChanged.__name__ in str(e) or "FILE_NOT_EXIST" in str(e), e
