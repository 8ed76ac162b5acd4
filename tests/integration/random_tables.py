"""Random tables, indexes, predicates and accidents, drawn from a seed; used by test_random_tables.

A table is a folder a partition with files that Spark or pyarrow wrote, in blocks of a few rows. Every row has an `id`.
One that lies in a store is made here first: `bring` makes the store's folder like ours after whatever befell it.
"""

from __future__ import annotations

import os
import random
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from hive_bitmap.core import stores
from hive_bitmap.core.formats.key_values import KeyColumn, arrow_type
from hive_bitmap.core.index import lookup, manifest
from hive_bitmap.core.stores import file_cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = timezone.utc
POOLS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, -1, 0, 1, 5, 127],
    "smallint": [-32768, -1, 0, 7, 32767],
    "int": [-(2**31), -5, 0, 1, 2, 3, 10, 2**31 - 1],
    "bigint": [-(2**63), -1, 0, 1, 3, 2**53 + 1, 2**63 - 1],
    "float": [-1.5, -0.0, 0.0, 0.1, float("nan"), float("inf")],
    "double": [-1.5, -0.0, 0.0, 0.1, float("nan"), float("-inf"), 1e300],
    "decimal(7,2)": [Decimal(text) for text in ("-12345.67", "-1.50", "0.00", "0.01", "1.50", "99999.99")],
    "decimal(38,10)": [Decimal(text) for text in ("-1.5000000000", "0.0000000001", "1.5000000000")],
    "string": ["", "a", "A", "ab", "abc", "b", "é", "日本", "it's", "a\\b", "%", "_", " a", "a ", "7", "x" * 300],
    "varchar(5)": ["", "a", "ab", "ab ", "abc", "é"],
    "char(4)": ["", "a", "ab", "abcd", "é"],
    "binary": [b"", b"a", b"\x00\xff", b"ab"],
    "date": [date(1600, 1, 1), date(1970, 1, 1), date(2020, 2, 29), date(2024, 12, 31), date(9999, 12, 31)],
    "timestamp": [
        datetime(1980, 1, 1, tzinfo=UTC),
        datetime(2020, 3, 29, 1, 30, tzinfo=UTC),
        datetime(2024, 11, 3, 5, 30, 0, 123456, tzinfo=UTC),
    ],
    "timestamp_ntz": [datetime(1980, 1, 1), datetime(2020, 3, 29, 2, 30), datetime(2024, 11, 3, 1, 30, 0, 123456)],
}
LITERALS = {
    "boolean": "TRUE FALSE NULL 'true' 1",
    "tinyint": "0 1 5 300 NULL '1' 1.0",
    "smallint": "0 7 40000 NULL '7' -1",
    "int": "0 1 2 10 3000000000 NULL '2' 2.0 2.5 1.0D -5",
    "bigint": "0 1 3 9007199254740993 NULL '1' 1.0 9007199254740993.0D",
    "float": "0.0 -0.0D 0.1 0.1F double('NaN') float('inf') NULL 0 '0.1'",
    "double": "0.0 -0.0D 0.1 double('NaN') double('-inf') NULL 0 '0.1'",
    "decimal(7,2)": "0 0.01 1.5 1.50 1.505 NULL 99999.99 1000000 '1.5' 1.5D",
    "decimal(38,10)": "0 1.5 0.0000000001 NULL -1.5 '1.5'",
    "string": "'' 'a' 'A' 'ab' 'zz' 'é' 'it\\'s' 'a\\\\b' '日本' NULL 'a%'",
    "varchar(5)": "'' 'a' 'ab' 'zz' NULL 'é' 'abcdefgh'",
    "char(4)": "'' 'a' 'ab' 'a\t' 'abcd' 'abcde' NULL 'é'",
    "binary": "X'' X'61' X'00FF' NULL",
    "date": "DATE'1970-01-01' DATE'2020-02-29' '2020-02-29' NULL DATE'1600-01-01' TIMESTAMP'2020-02-29T00:00:00'",
    "timestamp": "TIMESTAMP'2020-03-29T01:30:00Z' TIMESTAMP'1980-01-01T00:00:00Z' DATE'2020-03-29' NULL",
    "timestamp_ntz": "TIMESTAMP_NTZ'2020-03-29T02:30:00' TIMESTAMP_NTZ'1980-01-01T00:00:00' NULL DATE'2020-03-29'",
}
FUNCTIONS = {
    "text": "upper({c}) = 'A'|length({c}) > 1|{c} LIKE 'a%'|NOT {c} LIKE 'a%'|{c} LIKE '%b'|{c} RLIKE '^a'|{c} > 'a'"
    "|concat({c}, 'x') = 'ax'|{c} ILIKE 'AB'|{c} COLLATE UTF8_LCASE = 'ab'|{c} || 'y' <> 'ay'|startswith({c}, 'a')",
    "number": "{c} % 3 = 1|{c} + 1 > 2|abs({c}) < 3|CAST({c} AS STRING) LIKE '%1%'|{c} IN (0, 1.0)|NOT {c} > 0"
    "|coalesce({c}, 0) = 0|-{c} < 0|try_divide(10, {c}) > 2|round({c}) = 2|CAST({c} AS DOUBLE) = 0.1",
    "time": "year({c}) = 2020|CAST({c} AS STRING) LIKE '2020%'|{c} > DATE'2000-01-01'|date_trunc('YEAR', {c}) IS NULL",
    "other": "{c}|NOT {c}|CAST({c} AS STRING) = 'true'",
    "binary": "length({c}) = 1|hex({c}) = '61'|{c} > X'61'",
}
KIND = {
    "string": "text",
    "varchar": "text",
    "char": "text",
    "date": "time",
    "timestamp": "time",
    "timestamp_ntz": "time",
    "boolean": "other",
    "binary": "binary",
}
PARTITION_VALUES = {
    "string": ["a", "b c", "x=y/z", "100%", "é日本", "__x", "a'b"],
    "int": ["0", "1", "-7", "2000", "2023", "2024"],
    "date": ["2020-02-29", "1999-01-01"],
    "boolean": ["true", "false"],
}


@dataclass
class Table:
    """A table: its name, format, columns (name -> Spark type), and a folder for each partition.

    `draw` gives so many rows of all columns; without it they are random values, and an `id`. `away` is the folder of a
    store in which the table lies, `brought` what was brought there.
    """

    name: str
    format: str
    columns: dict[str, str]
    partitioned: dict[str, str]
    folders: dict[tuple[str | None, ...], Path]
    root: Path
    ids: int = 0
    story: list[str] = field(default_factory=list)
    draw: Callable[[random.Random, int], pa.Table] | None = None
    away: str = ""
    brought: dict[str, tuple[int, int]] = field(default_factory=dict)

    def place(self, path: Path) -> str:
        """Where Spark finds what lies at this path, as a literal of SQL has it."""
        found = str(path) if not self.away else f"{self.away}/{path.relative_to(self.root)}"
        return found.removesuffix("/.").replace("'", "\\'")

    def here(self, path: str) -> Path:
        """What lies here of a file of the table."""
        return Path(path.removeprefix("file:")) if not self.away else self.root / path.removeprefix(f"{self.away}/")


def make_table(spark: SparkSession, rng: random.Random, database: str, tmp: Path, home: str = "") -> Table:
    """Create a table of 1 to 3 random columns with some files, in a folder of a store if there is a `home`."""
    kinds = rng.sample(list(POOLS), rng.randint(1, 3))
    columns = {f"{'KkqZ'[n]}{n}": kind for n, kind in enumerate(kinds)}
    format = rng.choice(["parquet", "parquet", "orc"])
    partitioned = {f"p{n}": rng.choice(list(PARTITION_VALUES)) for n in range(rng.choice([0, 0, 1, 2]))}
    root = tmp / rng.choice(["plain", "a b", "100%25+é", "x=1"]) / uuid4().hex[:6]
    away = home and f"{home}/{root.relative_to(tmp)}"
    table = Table(f"{database}.r_{uuid4().hex[:8]}", format, columns, partitioned, {}, root, away=away)
    create(spark, table, hive=rng.random() < 0.5)
    if partitioned:
        for _ in range(rng.randint(1, 4)):
            add_partition(spark, rng, table)
    else:
        root.mkdir(parents=True, exist_ok=True)
        table.folders[()] = root
    for folder in table.folders.values():
        for _ in range(rng.randint(1, 3)):
            write_file(spark, rng, table, folder)
    table.story.insert(0, f"{table.columns} {table.format} {table.partitioned} {table.place(root)}")
    bring(spark, table)
    return table


def bring(spark: SparkSession, table: Table) -> None:
    """Make the folder of the store like the one here; times are brought along where a store can keep them."""
    if not table.away:
        return
    jvm, path = spark._jvm, spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]
    system = path(table.away).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # type: ignore[union-attr]
    there = sorted(table.root.rglob("*"))
    for folder in (table.root, *filter(Path.is_dir, there)):
        system.mkdirs(path(f"{table.away}/{folder.relative_to(table.root)}".removesuffix("/.")))
    found = {str(one.relative_to(table.root)): one for one in there if one.is_file() and one.suffix != ".crc"}
    for name in table.brought.keys() - found.keys():
        system.delete(path(f"{table.away}/{name}"), False)
        del table.brought[name]
    for name, one in found.items():
        now = one.stat().st_mtime_ns // 1_000_000, zlib.crc32(one.read_bytes())
        if table.brought.get(name) != now:
            source = jvm.org.apache.hadoop.fs.Path(f"file:{one}")  # type: ignore[union-attr]
            system.copyFromLocalFile(False, True, source, path(f"{table.away}/{name}"))
            if table.away.startswith("hdfs:"):
                system.setTimes(path(f"{table.away}/{name}"), now[0], -1)
            table.brought[name] = now


def create(spark: SparkSession, table: Table, hive: bool) -> None:
    hive = hive and "timestamp_ntz" not in table.columns.values()
    own = {} if table.draw else {"id": "bigint"}
    data = ", ".join(f"`{name}` {kind}" for name, kind in {**own, **table.columns}.items())
    parts = ", ".join(f"`{name}` {kind}" for name, kind in table.partitioned.items())
    by = f" PARTITIONED BY ({parts if hive else ', '.join(table.partitioned)})" if parts else ""
    columns = data if hive or not parts else f"{data}, {parts}"
    location = table.place(table.root)
    how = f"STORED AS {table.format}" if hive else f"USING {table.format}"
    external = "EXTERNAL " if hive else ""
    spark.sql(f"CREATE {external}TABLE {table.name} ({columns}) {how}{by} LOCATION '{location}'")


def add_partition(spark: SparkSession, rng: random.Random, table: Table) -> None:
    values = tuple(
        None if rng.random() < 0.15 else rng.choice(PARTITION_VALUES[kind]) for kind in table.partitioned.values()
    )
    if values in table.folders:
        return
    folder = (
        table.root / f"f{uuid4().hex[:6]}"
        if rng.random() < 0.9 or not table.folders
        else rng.choice(list(table.folders.values()))
    )
    folder.mkdir(parents=True, exist_ok=True)
    spark.sql(f"ALTER TABLE {table.name} ADD PARTITION ({spec(table, values)}) LOCATION '{table.place(folder)}'")
    table.folders[values] = folder


def spec(table: Table, values: Sequence[str | None]) -> str:
    texts = ("NULL" if value is None else "'" + value.replace("'", "\\'") + "'" for value in values)
    return ", ".join(f"{name}={text}" for name, text in zip(table.partitioned, texts, strict=True))


def rows_of(rng: random.Random, table: Table, count: int) -> pa.Table:
    """Random rows: skewed values, NULLs, and ascending ids."""
    if table.draw:
        return table.draw(rng, count)
    arrays = {"id": pa.array(range(table.ids, table.ids + count), pa.int64())}
    table.ids += count
    for name, kind in table.columns.items():
        pool = rng.sample(POOLS[kind], rng.randint(1, len(POOLS[kind])))
        weights = [rng.random() ** 4 for _ in pool]
        share = rng.choice([0.0, 0.1, 0.9])
        values = [None if rng.random() < share else value for value in rng.choices(pool, weights, k=count)]
        if rng.random() < 0.2:
            values.sort(key=repr)
        arrays[name] = pa.array(values, arrow_type(KeyColumn(name, kind)))
    return pa.table(arrays)


def write_file(spark: SparkSession, rng: random.Random, table: Table, folder: Path, name: str = "") -> Path:
    """A new file in the folder (or one of that name replaced), written by Spark or pyarrow."""
    count = rng.choice([0, 9, 300, 600] if table.draw else [0, 1, 9, 60, 150, 300])
    rows = rows_of(rng, table, count)
    path = folder / (name or f"part-{uuid4().hex[:8]}.{table.format}")
    fresh = folder / f".new{uuid4().hex}"
    noted = table.format == "orc" and "timestamp_ntz" in table.columns.values()  # pyarrow writes no note of that
    if count and (noted or rng.random() < 0.4):
        _by_spark(spark, table, rows, fresh)
    elif table.format == "parquet":
        pq.write_table(
            rows, fresh, row_group_size=rng.choice([7, 64, 1000]), use_deprecated_int96_timestamps=rng.random() < 0.3
        )
    else:
        orc.write_table(rows, fresh, stripe_size=1, batch_size=64, row_index_stride=rng.choice([16, 10_000]))
    os.replace(fresh, path)
    table.story.append(f"wrote {path.name} ({count})")
    return path


def _by_spark(spark: SparkSession, table: Table, rows: pa.Table, target: Path) -> None:
    folder = target.with_name(target.name + ".d")
    frame = spark.createDataFrame(rows).coalesce(1)
    options = {
        "parquet.block.size": "700",
        "parquet.block.size.row.check.min": "5",
        "parquet.page.size": "128",
        "parquet.page.size.row.check.min": "5",
        "orc.stripe.size": "1",
        "orc.rows.between.memory.checks": "1",
    }
    frame.write.options(**options).format(table.format).save(str(folder))
    written = [path for path in folder.iterdir() if path.name.startswith("part-")]
    os.replace(written[0], target)
    shutil.rmtree(folder)


def predicate(rng: random.Random, table: Table, depth: int = 0) -> str:
    """A random condition over the table."""
    if depth < 3 and rng.random() < (0.75, 0.5, 0.3)[depth]:
        word = rng.choice(["AND", "OR"])
        parts = [predicate(rng, table, depth + 1) for _ in range(rng.randint(2, 3))]
        text = f" {word} ".join(f"({part})" for part in parts)
        return f"NOT ({text})" if rng.random() < 0.25 else text
    if rng.random() < 0.05:
        return rng.choice(["TRUE", "FALSE", "NULL", "1 = 1", "1 > 2", "id % 5 = 0", "CAST(NULL AS BOOLEAN)"])
    every = {**table.columns, **table.partitioned, "id": "bigint"}
    name = rng.choice(list(every))
    return leaf(rng, name, every[name])


def leaf(rng: random.Random, name: str, kind: str) -> str:
    literals = LITERALS[kind].split(" ")
    column = rng.choice([name, name.upper(), f"`{name}`"])
    one, two = rng.choice(literals), rng.choice(literals)
    family = KIND.get(kind.partition("(")[0], "number")
    if name == "id":
        return f"id {rng.choice(['<', '>=', '='])} {rng.randint(0, 900)}"
    return rng.choice(
        [
            f"{column} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>', '='])} {one}",
            f"{one} {rng.choice(['=', '<', '>='])} {column}",
            f"{column} {rng.choice(['', 'NOT '])}BETWEEN {one} AND {two}",
            f"{column} {rng.choice(['', 'NOT '])}IN ({one}, {two})",
            f"{column} IS {rng.choice(['', 'NOT '])}NULL",
            f"{column} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {one}",
            f"CASE WHEN {column} = {one} THEN TRUE ELSE {column} IS NULL END",
            rng.choice(FUNCTIONS[family].split("|")).format(c=column),
        ]
    )


def files_of(table: Table) -> list[Path]:
    """The visible files of all partitions."""
    found = {path for folder in table.folders.values() if folder.exists() for path in folder.iterdir()}
    return sorted(path for path in found if path.is_file() and not path.name.startswith((".", "_")))


def harm_file(spark: SparkSession, rng: random.Random, table: Table, index_folders: Sequence[str]) -> None:
    """Replace a file by other rows: anew, or in place with the size and times of the old one."""
    files = files_of(table)
    if not files:
        return
    path = rng.choice(files)
    if rng.random() < 0.5:
        write_file(spark, rng, table, path.parent, path.name)
        return
    before = path.stat()
    others = [other for other in files if other.stat().st_size == before.st_size and other != path]
    other = rng.choice(others or files)
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    table.story.append(f"{path.name} now holds {other.name}, with the old time")


def harm_listing(spark: SparkSession, rng: random.Random, table: Table, index_folders: Sequence[str]) -> None:
    """Add or delete files, visible or not."""
    folder = rng.choice(list(table.folders.values()))
    what = rng.choice(["add", "delete", "hidden", "folder", "copying"])
    table.story.append(f"listing: {what}")
    files = [path for path in files_of(table) if path.parent == folder]
    match what:
        case "add":
            write_file(spark, rng, table, folder)
        case "delete" if files:
            rng.choice(files).unlink()
        case "hidden":
            (folder / "_SUCCESS").write_text("")
            write_file(spark, rng, table, folder, f".hidden.{table.format}")
        case "folder":
            (folder / "sub").mkdir(exist_ok=True)
            write_file(spark, rng, table, folder / "sub")
        case "copying":
            write_file(spark, rng, table, folder, f"x.{table.format}._COPYING_")


def harm_partitions(spark: SparkSession, rng: random.Random, table: Table, index_folders: Sequence[str]) -> None:
    """Add, drop or move a partition; or swap the locations of two."""
    if not table.partitioned:
        return
    values = rng.choice(list(table.folders))
    what = rng.choice(["add", "drop", "move", "share"])
    table.story.append(f"partitions: {what} {values}")
    if what == "add":
        add_partition(spark, rng, table)
    elif what == "drop" and len(table.folders) > 1:
        spark.sql(f"ALTER TABLE {table.name} DROP PARTITION ({spec(table, values)})")
        table.folders.pop(values)
    else:
        folder = table.root / f"moved{uuid4().hex[:6]}"
        if what == "share":
            folder = rng.choice(list(table.folders.values()))
        else:
            shutil.copytree(table.folders[values], folder)
        spark.sql(f"ALTER TABLE {table.name} PARTITION ({spec(table, values)}) SET LOCATION '{table.place(folder)}'")
        table.folders[values] = folder


def harm_index(spark: SparkSession, rng: random.Random, table: Table, index_folders: Sequence[str]) -> None:
    """Delete, truncate or flip a byte of a shard or manifest; what this process knows of them is forgotten."""
    files = [path for folder in index_folders for path in _below(folder) if path.endswith(".parquet")]
    if not files:
        return
    path = rng.choice(files)
    content = bytearray(_content(path))
    what = rng.choice(["delete", "truncate", "flip", "flip", "swap"])
    table.story.append(f"index file {'/'.join(path.split('/')[-2:])}: {what}")
    if what == "delete":
        stores.delete_file(path)
    elif what == "truncate":
        _write(path, content[: rng.randrange(len(content))])
    elif what == "swap":
        _write(path, _content(rng.choice(files)))
    else:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        _write(path, content)
    lookup.clear_caches()
    manifest.read.cache_clear()
    file_cache.forget()


def _below(folder: str) -> list[str]:
    try:
        there = stores.listing(folder)
    except FileNotFoundError:
        return []
    deeper = [path for name in there.folders for path in _below(f"{folder}/{name}")]
    return [*(file.path for file in there.files), *deeper]


def _content(path: str) -> bytes:
    with stores.open_input(path) as file:
        content: bytes = file.read()
        return content


def _write(path: str, content: bytes | bytearray) -> None:
    with stores.open_output(path) as file:
        file.write(bytes(content))


def harm_columns(spark: SparkSession, rng: random.Random, table: Table, index_folders: Sequence[str]) -> None:
    """Add a column, which the old files lack."""
    name = f"more{len(table.columns)}"
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (`{name}` int)")
    table.columns[name] = "int"
    table.story.append("added a column")


def recreate(spark: SparkSession, rng: random.Random, table: Table, index_folders: Sequence[str]) -> None:
    """Drop the table and create it anew over the same files."""
    spark.sql(f"DROP TABLE {table.name}")
    create(spark, table, hive=rng.random() < 0.5)
    for values, folder in table.folders.items():
        if values:
            place = table.place(folder)
            spark.sql(f"ALTER TABLE {table.name} ADD PARTITION ({spec(table, values)}) LOCATION '{place}'")
    table.story.append("recreated")


HARMS: list[Callable[[SparkSession, random.Random, Table, Sequence[str]], None]] = [
    harm_file,
    harm_file,
    harm_listing,
    harm_listing,
    harm_partitions,
    harm_index,
    harm_index,
    harm_columns,
    recreate,
]
