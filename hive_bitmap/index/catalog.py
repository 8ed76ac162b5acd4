"""The indexes of a table, as the metastore holds them: finding, checking and altering index tables.

An index table is a plain EXTERNAL table; its definition is in its TBLPROPERTIES, its state is where its location, or
that of each of its partitions, points. What others did to table and properties is told as the problem of the index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hive_bitmap import stores
from hive_bitmap.errors import AlreadyExists, InvalidProperty, NotFound, Unsupported
from hive_bitmap.index import generation, schema_drift
from hive_bitmap.index.definition import PREFIX, VERSION, Definition, from_table, to_properties
from hive_bitmap.metastore import alter_table, metastore, session_stores
from hive_bitmap.metastore.table_info import Table, Values, hadoop_path, index_table_name
from hive_bitmap.parallel import each
from hive_bitmap.session_cache import TtlCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTER = PREFIX + "index_tables"  # on a base table: names that IN TABLE gave, comma-separated
NEXT = PREFIX + "next_encoding"
TABLES_AT_ONCE = 500  # described in one call to the metastore
INDEXES_REMEMBERED = 30.0  # seconds for which a query need not hear of what other sessions did to the indexes
PARTITIONS_REMEMBERED = 10_000  # of an index table; those of a larger one are asked for each time
Name = tuple[str, str]  # of a database and a table in it

_index_tables: TtlCache[Name, _Named] = TtlCache()  # of base tables
_told: dict[Callable[[], None], None] = {}  # functions to call when indexes change
_states: TtlCache[Name, dict[Values, str]] = TtlCache(most=64)  # of partitioned index tables


@dataclass(frozen=True)
class Index:
    """An index that exists: its definition, and its index table as the metastore has it now.

    `problem` says why queries cannot use it, and what mends that; it is empty for an index that they can.
    """

    definition: Definition
    table: Table
    problem: str = ""

    @property
    def why_not(self) -> str:
        """Why queries do not use the index; empty where they may."""
        if not self.definition.enabled:
            return f"index {self.definition.name} is not enabled: set its property enabled to true"
        return self.problem


@dataclass(frozen=True)
class _Named:
    """The tables that have the usual names of index tables of one table, and the indexes that they are."""

    names: frozenset[str]
    indexes: tuple[Index, ...]

    @classmethod
    def of(cls, tables: Sequence[Table]) -> _Named:
        return cls(frozenset(table.name for table in tables), tuple(_indexes(tables)))


def table_and_indexes(spark: SparkSession, name: str, seconds: float = 0) -> tuple[Table, list[Index]]:
    """A table and all indexes on it, by name. Raises NotFound for an unknown table.

    Index tables may be those of up to `seconds` ago: where they point then is no less right, since files are known by
    their fingerprints. The base table is always looked up.
    """
    where = metastore.split_name(spark, name)
    remembered = _index_tables.get(spark, where, seconds)
    if remembered is not None:
        base = metastore.describe(spark, name)
    else:
        base, tables = metastore.describe_with(
            spark,
            name,
            lambda database, table: metastore.names_like(spark, database, index_table_name(database, table, "*")),
        )
        remembered = _Named.of(tables)
        _index_tables.keep(spark, where, remembered)
    return base, _with_pointed(spark, base, remembered)


def indexes_on(spark: SparkSession, base: Table, seconds: float = 0) -> list[Index]:
    """The indexes of a table that is known already; they may be those of up to `seconds` ago."""
    session_stores.use(spark)  # what is remembered asks no metastore, which would say so
    where = (base.database, base.name)
    found = _index_tables.get(spark, where, seconds)
    if found is None:
        pattern = index_table_name(base.database, base.name, "*")
        names = metastore.names_like(spark, base.database, pattern)
        found = _Named.of(metastore.describe_many(spark, base.database, names))
        _index_tables.keep(spark, where, found)
    return _with_pointed(spark, base, found)


def _with_pointed(spark: SparkSession, base: Table, found: _Named) -> list[Index]:
    """The indexes of a table among its index tables of the usual names, and those that its pointer names."""
    pointed = base.properties.get(POINTER, "").split(",")
    others = [name for name in pointed if name and name not in found.names]
    more = _indexes(metastore.describe_many(spark, base.database, others)) if others else []
    return [
        replace(index, problem=index.problem or schema_drift.problem(base, index.table, index.definition))
        for index in _distinct([*found.indexes, *more], base.name)
    ]


def find(spark: SparkSession, name: str) -> tuple[Table | None, list[Index]]:
    """As `table_and_indexes`, but the table may be gone, and None, where indexes of it were left behind."""
    try:
        return table_and_indexes(spark, name)
    except NotFound:
        database, table = metastore.split_name(spark, name)
        left = [index for index in indexes_of_database(spark, database) if index.definition.table == table]
        if not left:
            raise
        gone = f"table {database}.{table} is gone, dropped or renamed: drop the index"
        return None, [replace(index, problem=gone) for index in left]


def indexes_of_database(spark: SparkSession, database: str) -> list[Index]:
    """Every index table of a database, whatever its name, by table and index; none for an unknown database."""
    return among(tables_of_database(spark, database))


def tables_of_database(spark: SparkSession, database: str) -> list[Table]:
    """All tables and views of a database."""
    names = metastore.names_like(spark, database, "*") if spark.catalog.databaseExists(database) else []
    batches = [names[start : start + TABLES_AT_ONCE] for start in range(0, len(names), TABLES_AT_ONCE)]
    return [table for batch in batches for table in metastore.describe_many(spark, database, batch)]


def named(base: Table, indexes: Sequence[Index], name: str) -> Index:
    """The index of that name; NotFound names those that exist."""
    for index in indexes:
        if index.definition.name == name.lower():
            return index
    raise NotFound.of("index", name, [index.definition.name for index in indexes], f"table {base.full_name}")


def require_free(spark: SparkSession, base: Table, indexes: Sequence[Index], definition: Definition) -> None:
    """Raise AlreadyExists if the name of the index or of its index table is taken."""
    if any(index.definition.name == definition.name for index in indexes):
        raise AlreadyExists(f"index {definition.name} already exists on table {base.full_name}")
    for table in metastore.describe_many(spark, base.database, [definition.index_table]):
        owner = from_table(table)
        whose = f"it is index {owner.name} on {owner.full_table}" if owner else "it is no index table"
        raise AlreadyExists(f"table {table.full_name} already exists and {whose}: give another name with IN TABLE")


def require_distinct(definitions: Sequence[Definition]) -> None:
    """Raise AlreadyExists if two indexes of one build would share a name or a table."""
    tables = [definition.index_table for definition in definitions]
    for table in tables:
        if tables.count(table) > 1:
            raise AlreadyExists(f"two of the indexes would be table {table}: build them one by one, with names")


def require_same_table(base: Table, index: Index) -> None:
    """Raise Unsupported if an indexed or partition column is not what it was when the index was created."""
    problem = schema_drift.problem(base, index.table, index.definition)
    if problem:
        raise Unsupported(problem)


def place(spark: SparkSession, definition: Definition, location: str | None) -> Definition:
    """The definition with the folder its generations go to: LOCATION, else one under the external warehouse root.

    No two indexes share one: AlreadyExists is raised for the LOCATION of another, and the default is then another name.
    Raises InvalidProperty for a LOCATION without a host where its scheme has one, and for one in the folder of a table
    of the database, whose readers would take shards for its rows.
    """
    if location is None:
        root = hadoop_path(f"{home(spark, definition.database)}/{definition.index_table}")
        found = generation.anywhere(root)  # of an index that was renamed, of one that was dropped, of a build at work
        taken = any(usage.state is not generation.State.ORPHANED for usage in each(generation.usage, found))
        return replace(definition, root=f"{root}-{token_hex(4)}" if taken else root)
    root = root_at(location)
    if re.match(r"(?!file:)\w+:/(//|[^/])", root):
        raise InvalidProperty(f"LOCATION {location} names no host or bucket: the metastore would add one")
    tables = tables_of_database(spark, definition.database)
    for other in among(tables):
        if other.definition.root == root:
            index = f"index {other.definition.name} on {other.definition.full_table}"
            raise AlreadyExists(f"folder {root} is that of {index}: give another LOCATION")
    for table in tables:
        if table.location and f"{root}/".startswith(f"{table.location}/"):
            raise InvalidProperty(f"LOCATION {location} is in the folder of table {table.full_name}: give another one")
    return replace(definition, root=root)


def root_at(location: str) -> str:
    """A LOCATION as a Hadoop path string; one without a scheme is a folder of the local file system."""
    return hadoop_path(location if ":" in location.partition("/")[0] else "file:" + stores.absolute(location))


def home(spark: SparkSession, database: str) -> str:
    """The folder in which index tables of a database are made; one without a file system is in the database's."""
    external = spark.conf.get("spark.hadoop.metastore.warehouse.external.dir", None)
    if external and urlsplit(external).scheme:
        return hadoop_path(external)
    folder = spark.catalog.getDatabase(database).locationUri
    return hadoop_path(urlsplit(folder)._replace(path=external).geturl() if external else folder)


def states(spark: SparkSession, index: Index, seconds: float = 0) -> dict[Values, str]:
    """The published generation of each partition; of an unpartitioned table under the key ().

    An index that another process has dropped since has none. They may be those of up to `seconds` ago, as in
    `table_and_indexes`.
    """
    if not index.table.partition_columns:
        return {(): index.table.location}
    where = (index.table.database, index.table.name)
    remembered = _states.get(spark, where, seconds)
    if remembered is not None:
        return remembered
    found = _asked_states(spark, index)
    if len(found) <= PARTITIONS_REMEMBERED:
        _states.keep(spark, where, found)
    else:
        _states.drop(spark, where)
    return found


def _asked_states(spark: SparkSession, index: Index) -> dict[Values, str]:
    from pyspark.errors import PySparkException

    try:
        return {partition.values: partition.location for partition in metastore.partitions(spark, index.table)}
    except PySparkException:
        if metastore.describe_many(spark, index.table.database, [index.table.name]):
            raise
        return {}


def alter(spark: SparkSession, index: Index, changed: Definition) -> None:
    """Change the definition of an index, in one change of its properties; then the name of its table, if that differs.

    Raises Unsupported where the definition was lost.
    """
    if not index.definition.columns:
        raise Unsupported(index.problem)
    forget()
    properties = to_properties(changed)
    if changed.comment != index.definition.comment:
        properties["comment"] = changed.comment
    alter_table.set_properties(spark, index.table, properties, {NEXT} - set(properties))
    if changed.index_table != index.table.name:
        alter_table.rename(spark, index.table, changed.index_table)


def when_forgotten(tell: Callable[[], None]) -> None:
    """Call a function whenever this process makes, alters or drops an index."""
    _told[tell] = None


def forget() -> None:
    """Remember nothing of where index tables pointed: they are about to change. Whoever asked to be told is told."""
    for tell in tuple(_told):
        tell()
    for recent in (_index_tables, _states):
        recent.clear()


def generation_parent(base: Table, definition: Definition, values: Values) -> str:
    """The folder that holds the generations of one partition."""
    names = [column.name for column in base.partition_columns]
    return generation.partition_folder(definition.root, names, values)


def point_to(spark: SparkSession, base: Table, more: set[str], less: set[str]) -> None:
    """Keep the base table's pointer to index tables of other names; nothing else is ever written there."""
    before = {name for name in base.properties.get(POINTER, "").split(",") if name}
    after = (before | more) - less
    if after and after != before:
        alter_table.set_properties(spark, base, {POINTER: ",".join(sorted(after))})
    elif before and not after:
        alter_table.set_properties(spark, base, {}, [POINTER])


def among(tables: Iterable[Table], base: str | None = None) -> list[Index]:
    """The indexes among these tables, of one base table or of all; of two tables of one index the first."""
    return _distinct(_indexes(tables), base)


def _indexes(tables: Iterable[Table]) -> list[Index]:
    return [index for index in map(_index, tables) if index is not None]


def _distinct(indexes: Iterable[Index], base: str | None) -> list[Index]:
    found: dict[tuple[str, str], Index] = {}
    for index in sorted(indexes, key=lambda index: index.table.name):
        if base in (None, index.definition.table):
            found.setdefault((index.definition.table, index.definition.name), index)
    return [found[key] for key in sorted(found)]


def _index(table: Table) -> Index | None:
    """The index that a table is; one whose properties were edited is told by what its newest generation says."""
    definition = from_table(table)
    if definition is not None:
        return Index(definition, table)
    said = {key for key in table.properties if key.startswith(PREFIX) and key != POINTER}
    if not said or table.properties.get(PREFIX + "version", VERSION) != VERSION:
        return None
    written = schema_drift.written_definition(table)
    if written is None:
        return None
    edited = f"the TBLPROPERTIES or columns of index table {table.full_name} are not what a build wrote"
    return Index(written, table, f"{edited}: rebuild the index, or drop it and create it anew")
