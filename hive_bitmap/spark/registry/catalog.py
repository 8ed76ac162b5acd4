"""Find and check the indexes of a table.

Each index has an index table in the metastore, a plain EXTERNAL table. The TBLPROPERTIES of the index table hold the
definition of the index. The partitions of the index table are slots. A slot points at a segment, or at the empty folder
of the index. `Index.problem` reports changes by other programs in the index table or the base table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hive_bitmap.core.index import schema_drift
from hive_bitmap.core.index.definition import (
    Definition,
    from_table,
    has_properties,
    knows,
    pointers,
)
from hive_bitmap.core.segments import slots
from hive_bitmap.core.table_info import (
    Partition,
    Table,
    full_name,
    in_spark,
    index_table_name,
)
from hive_bitmap.errors import (
    NotFound,
    ServerError,
    StoreError,
    Unsupported,
)
from hive_bitmap.spark import session_cache
from hive_bitmap.spark.metastore import metastore, session_settings
from hive_bitmap.spark.registry import trust
from hive_bitmap.spark.session_cache import TtlCache
from hive_bitmap.spark.versions import feature_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
TABLES_AT_ONCE = 500  # tables described in one metastore call
INDEX_CACHE_SECONDS = 30.0  # seconds for which a query may miss changes that other sessions made to indexes
Name = tuple[str, str]  # database and table

_index_tables: TtlCache[tuple[str, str, str], _IndexTables] = TtlCache(by_user=True)  # by base table, with its catalog
_slots: TtlCache[Name, dict[int, str]] = TtlCache(most=512, by_user=True)  # by index table
_listeners: dict[Callable[[], None], None] = {}  # called when indexes change; a dict, as an ordered set


@dataclass(frozen=True, kw_only=True)
class Index:
    """An existing index: its definition and its current index table.

    `table` is the index table as the metastore describes it. `problem` says why queries cannot use the index and how
    to repair it; "" if queries can use the index. An index that is not `trusted` is not rebuilt either, because its
    root may be another user's folder. `copies` are the definitions in other trusted tables that claim to be this
    index. `unusable_key` says why a query cannot use one of several keys of the index; "" if it can use all.
    """

    definition: Definition
    table: Table
    problem: str = ""
    trusted: bool = True
    copies: tuple[Definition, ...] = ()
    unusable_key: str = ""

    @property
    def why_not(self) -> str:
        """The reason why queries do not use the index; "" if they may use it."""
        if not self.definition.enabled:
            return f"index {self.definition.name} is not enabled: set its property enabled to true"
        return self.problem


@dataclass(frozen=True)
class _IndexTables:
    """The tables that may be index tables.

    `defined` are the indexes of the tables that have a definition. `damaged` are the tables that have lost their
    definition. `_written` caches, by table name, the indexes found in the files of damaged tables.
    """

    defined: tuple[Index, ...]
    damaged: tuple[Table, ...]
    _written: dict[Name, Index | None] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Sequence[Table]) -> _IndexTables:
        damaged = tuple(table for table in tables if _is_damaged(table))
        return cls(tuple(among(tables)), damaged)

    def judged(self, judge: trust.Judge) -> list[Index]:
        """Return the indexes; each untrusted index has the reason in `problem`.

        `judge` decides which index tables are trusted. Files of untrusted tables are not read.
        """
        trusted_tables = [table for table in self.damaged if not judge(table, None)]
        for table in trusted_tables:
            if _name(table) not in self._written:
                self._written[_name(table)] = _from_files(table)
        indexes = [*self.defined, *filter(None, (self._written[_name(table)] for table in trusted_tables))]
        reasons = [judge(index.table, index.definition) for index in indexes]
        return [
            replace(index, problem=reason, trusted=False) if reason else index
            for index, reason in zip(indexes, reasons, strict=True)
        ]


def table_and_indexes(spark: SparkSession, name: str, seconds: float = 0) -> tuple[Table, list[Index]]:
    """Return a table and all its indexes, sorted by index name.

    The index tables may come from a cache and be up to `seconds` old; the base table is never cached. Old index tables
    are safe, because base files are compared with their fingerprints. Raise NotFound for an unknown table.
    """
    key, version = metastore.split_name(spark, name), _index_tables.version
    cached = _index_tables.get(spark, key, seconds)
    if cached is not None:
        base = metastore.describe(spark, name)
    else:
        base, tables = metastore.describe_with(
            spark,
            name,
            lambda database, table: metastore.names_like(spark, database, index_table_name(database, table, "*")),
        )
        cached = _IndexTables.of(with_pointed(spark, tables, [base]))
        _index_tables.put(spark, key, cached, version)
    return base, _judged(spark, base, cached)


def indexes_on(spark: SparkSession, base: Table, seconds: float = 0) -> list[Index]:
    """Return the indexes of a table that was already described.

    The indexes may be cached for up to `seconds`. The POINTER property of the table is read again, because `base` may
    be old: a session may keep the description of a table until the session ends.
    """
    session_settings.use_stores(spark)  # metastore calls do this too, but a cached answer makes none
    key, version = (base.catalog, base.database, base.name), _index_tables.version
    cached = _index_tables.get(spark, key, seconds)
    if cached is None:
        pattern = index_table_name(base.database, base.name, "*")
        exists = not base.catalog or metastore.database_exists(spark, base.database)
        names = metastore.names_like(spark, base.database, pattern) if exists else []
        base_name = [base.name] if base.lake is None else []  # lake tables have no pointer
        tables = metastore.describe_many(spark, base.database, [*names, *base_name])
        cached = _IndexTables.of(with_pointed(spark, tables, [table for table in tables if table.name == base.name]))
        _index_tables.put(spark, key, cached, version)
    return _judged(spark, base, cached)


def with_pointed(spark: SparkSession, tables: Sequence[Table], bases: Sequence[Table]) -> list[Table]:
    """Return these tables, and the index tables that base tables point at.

    The POINTER properties of the base tables `bases` name these index tables, which may be in any database.
    """
    pointed = {name for base in bases for name in pointers(base)}
    return [*tables, *described(spark, pointed - set(map(_name, tables)))]


def _name(table: Table) -> Name:
    return table.database, table.name


def _judged(spark: SparkSession, base: Table, index_tables: _IndexTables) -> list[Index]:
    """Return the indexes on a base table.

    If queries cannot use an index, its `problem` has the reason.
    """
    judged = index_tables.judged(trust.by_base(spark, base))
    return [
        replace(index, problem=index.problem or _former(index) or problem_of(spark, base, index.definition))
        for index in _distinct(index for index in judged if index.definition.is_on(base))
    ]


def problem_of(spark: SparkSession, base: Table, definition: Definition) -> str:
    """Return why an index does not fit its base table or Spark; "" if it fits."""
    why = schema_drift.problem(base, definition)
    if why or not definition.expressions:
        return why
    return schema_drift.problem_of_spark(definition, feature_version(spark))


def part_by_fit(spark: SparkSession, base: Table, indexes: Iterable[Index]) -> tuple[list[Index], list[Index]]:
    """Part indexes into those that fit their base table and Spark, and those that do not.

    Each index that does not fit has the reason in `problem`.
    """
    reasons = [(index, problem_of(spark, base, index.definition)) for index in indexes]
    fitting = [index for index, why in reasons if not why]
    return fitting, [replace(index, problem=why) for index, why in reasons if why]


def _former(index: Index) -> str:
    """Return the problem of an index in an older format.

    Queries do not read an older format. Return "" for the current format.
    """
    name, version = index.definition.name, index.definition.version
    return (
        f"index {name} has format {version}, which is no longer read: rebuild it" if index.definition.is_former else ""
    )


def find_even_if_dropped(spark: SparkSession, name: str) -> tuple[Table | None, list[Index]]:
    """Return a table and its indexes, even if the table is missing.

    The table is None if it was dropped or renamed. Raises NotFound for a table that does not exist and has no indexes
    left.
    """
    try:
        return table_and_indexes(spark, name)
    except NotFound:
        full = full_name(*metastore.split_name(spark, name))
        tables = tables_around(spark, metastore.split_name(spark, name)[1])
        indexes = _distinct(with_copies(spark, [*tables, *_orphans_elsewhere(spark, name, tables)]))
        orphans = [index for index in indexes if index.definition.full_table == full]
        if not orphans:
            raise
        problem = (
            f"table {full} is gone: drop the index, or if the table was renamed, run hive-bitmap attach "
            f"NEW --from {full}"
        )
        return None, [replace(index, problem=problem) if index.trusted else index for index in orphans]


def _orphans_elsewhere(spark: SparkSession, name: str, known_tables: Sequence[Table]) -> list[Table]:
    """Return tables of other databases that may be index tables of a missing table.

    The result has the tables with the default names of the missing table's index tables. Tables in `known_tables` are
    left out.
    """
    catalog, database, table = metastore.split_name(spark, name)
    pattern, known_names = index_table_name(database, table, "*"), set(map(_name, known_tables))
    orphans: list[Table] = []
    for other in metastore.database_names(spark) if not catalog else ():
        if other == database:
            continue
        try:
            names = {(other, index_table) for index_table in metastore.names_like(spark, other, pattern)}
            orphans += described(spark, names - known_names)
        except metastore_errors() as e:
            log.warning("cannot check whether database %s has indexes of table %s.%s: %s", other, database, table, e)
    return orphans


def metastore_errors() -> tuple[type[Exception], ...]:
    """Return the classes of the errors that listing a database may raise.

    Callers that search many databases skip a database for which the metastore raises such an error.
    """
    from pyspark.errors import PySparkException

    return (ServerError, PySparkException)


def indexes_of_database(spark: SparkSession, database: str) -> list[Index]:
    """Return all indexes whose index table or base table is in a database.

    The indexes are sorted by base table and index name. Index tables may have any name. A pointer alone does not make
    an index part of the database. An unknown database has no indexes.
    """
    indexes = ((index, index.definition) for index in _distinct(with_copies(spark, tables_around(spark, database))))
    return [
        index for index, definition in indexes if database in (definition.database, definition.index_table_database)
    ]


def indexes_on_tables_of(spark: SparkSession, database: str) -> list[Index]:
    """Return every index on the tables of a database.

    The indexes are sorted by base table and index name.
    """
    return [index for index in indexes_of_database(spark, database) if index.definition.database == database]


def indexed_tables(spark: SparkSession, database: str | None, *, all_databases: bool = False) -> list[str]:
    """Return the names of the tables that have a trusted index, sorted.

    The names are written as in Spark's SQL. A table is included if it or one of its index tables is in `database`; None
    means the session's current database. With `all_databases`, the tables of every database are included. A dropped
    table is included as long as it has an index left.
    """
    every_database = metastore.database_names(spark) if all_databases else []
    databases = every_database or [database or spark.catalog.currentDatabase()]
    indexes = [index.definition for name in databases for index in indexes_of_database(spark, name) if index.trusted]
    tables = {(index.catalog, index.database, index.table) for index in indexes}
    return [in_spark(*names, catalog=catalog) for catalog, *names in sorted(tables)]


def with_copies(spark: SparkSession, tables: Sequence[Table]) -> list[Index]:
    """Return the index of each index table of some databases.

    `tables` are all tables of these databases. The base table of an index may be in another database; the definition
    of the index names it. If several index tables claim to be the same index, the result has an item for each of them.
    """
    base_names = {name for table in tables if (name := trust.base_named(table))}
    bases = described(spark, base_names - set(map(_name, tables)))
    return _IndexTables.of(tables).judged(trust.by_database(spark, [*tables, *bases]))


def tables_around(spark: SparkSession, *databases: str) -> list[Table]:
    """Return the tables and views of databases.

    The result also has the index tables to which these tables point.
    """
    tables = [table for database in databases for table in tables_of_database(spark, database)]
    return with_pointed(spark, tables, tables)


def tables_of_database(spark: SparkSession, database: str) -> list[Table]:
    """Return the tables and views of a database; an unknown database has none."""
    names = metastore.names_like(spark, database, "*") if metastore.database_exists(spark, database) else []
    return described(spark, ((database, name) for name in names))


def described(spark: SparkSession, names: Iterable[Name]) -> list[Table]:
    """Return the tables of these names, sorted by name.

    Missing tables and databases are left out.
    """
    by_database: dict[str, list[str]] = {}
    for database, name in sorted(names):
        by_database.setdefault(database, []).append(name)
    batches = [
        (database, in_database[start : start + TABLES_AT_ONCE])
        for database, in_database in by_database.items()
        for start in range(0, len(in_database), TABLES_AT_ONCE)
    ]
    return [table for database, batch in batches for table in metastore.describe_many(spark, database, batch)]


def named(base: Table, indexes: Sequence[Index], name: str) -> Index:
    """Return the index that has this name.

    `indexes` are all indexes of the table `base`. Raise NotFound, with the names of these indexes, if no index has the
    name.
    """
    for index in indexes:
        if index.definition.name == name.lower():
            return index
    raise NotFound.of("index", name, [index.definition.name for index in indexes], f"table {base.full_name}")


def slots_of(spark: SparkSession, table: Table, seconds: float = 0) -> dict[int, str]:
    """Return the folder of each slot of an index table, by slot number.

    The result is empty if another process has dropped the table. The result may come from a cache and be up to
    `seconds` old.
    """
    key, version = (table.database, table.name), _slots.version
    folders = _slots.get(spark, key, seconds)
    if folders is None:
        listed = ((partition.values[0] or "", partition.location) for partition in _partitions(spark, table))
        folders = {
            int(number): folder for number, folder in listed if number.isdecimal() and number == str(int(number))
        }
        _slots.put(spark, key, folders, version)
    return folders


def segments(spark: SparkSession, index: Index, seconds: float = 0) -> list[str]:
    """Return the folders of an index's published segments, oldest first.

    The slots may be cached for up to `seconds`. The result is empty for an index in an older format.
    """
    if index.definition.is_former:
        return []
    return slots.segments(slots_of(spark, index.table, seconds), index.definition)


def _partitions(spark: SparkSession, table: Table) -> list[Partition]:
    """Return the partitions of a table.

    The result is empty for a dropped table.
    """
    from pyspark.errors import PySparkException

    try:
        return metastore.partitions(spark, table)
    except PySparkException:
        if metastore.describe_many(spark, table.database, [table.name]):
            raise
        return []


def places(spark: SparkSession, table: Table) -> list[str]:
    """Return the folders of a table and of its partitions in the metastore."""
    has_partitions = table.partition_columns and not table.by_folders and table.kind in ("MANAGED", "EXTERNAL")
    partitions = _partitions(spark, table) if has_partitions else ()
    return [*filter(None, [table.location]), *(partition.location for partition in partitions)]


def on_change(listener: Callable[[], None]) -> None:
    """Register a function to call when this process creates, alters or drops an index."""
    _listeners[listener] = None


@contextmanager
def changing() -> Iterator[None]:
    """Call `clear_caches` before and after a change of index tables.

    Entries that were cached during the change may be stale.
    """
    clear_caches()
    try:
        yield
    finally:
        clear_caches()


def clear_caches() -> None:
    """Clear the caches of index tables and slots, and then call the listeners.

    Listeners set a new version for the JVM's questions. The caches are cleared first, so that no question with the new
    version gets the old state.
    """
    session_cache.clear(_index_tables, _slots)
    for listener in tuple(_listeners):
        listener()


def among(tables: Iterable[Table]) -> list[Index]:
    """Return the indexes defined in the properties of these tables.

    Untrusted indexes are included.
    """
    defined = ((from_table(table), table) for table in tables)
    return [Index(definition=definition, table=table) for definition, table in defined if definition is not None]


def at(table: Table, root: str) -> Index | None:
    """Return the index of an index table, trusted or not.

    The properties of `table` define the index. If the properties are damaged and the table lies in `root`, the
    definition is read from the files of the table. Return None if there is no definition.
    """
    if indexes := among([table]):
        return indexes[0]
    is_in_root = table.location == root or table.location.startswith(f"{root}/")
    return _from_files(table) if is_in_root and _is_damaged(table) else None


def _distinct(indexes: Iterable[Index]) -> list[Index]:
    """Return each index once, sorted by base table and index name.

    If several tables claim to be the same index, a trusted table is preferred, then an EXTERNAL table, because builds
    create EXTERNAL tables, then the first table by name.
    """

    def rank(index: Index) -> tuple[bool, bool, str, str]:
        return not index.trusted, index.table.kind != "EXTERNAL", *_name(index.table)

    by_name: dict[tuple[str, str], list[Index]] = {}
    for index in sorted(indexes, key=rank):
        by_name.setdefault((index.definition.full_table, index.definition.name), []).append(index)
    return [
        replace(first, copies=tuple(copy.definition for copy in copies if copy.trusted))
        for first, *copies in (by_name[key] for key in sorted(by_name))
    ]


def trusted_definitions(indexes: Iterable[Index]) -> list[Definition]:
    """Return the definitions of trusted indexes and of their copies.

    An index is followed by its `Index.copies`: the definitions in other trusted tables that claim to be the same index.
    """
    return [definition for index in indexes if index.trusted for definition in (index.definition, *index.copies)]


def _is_damaged(table: Table) -> bool:
    """Return whether a table has properties of an index table but no definition."""
    return knows(table.properties) and has_properties(table) and from_table(table) is None


def _from_files(table: Table) -> Index | None:
    """Return the index of a table with edited properties.

    The definition is read from the newest generation of the index. Return None if there is no generation, or if the
    folder cannot be read.
    """
    from hive_bitmap.core.index.generation import written_definition  # loads what reads folders of indexes

    try:
        written = written_definition(table)
    except (StoreError, Unsupported, ValueError, OSError) as e:
        log.warning("table %s does not count as an index table: its folder cannot be read: %s", table.full_name, e)
        return None
    if written is None:
        return None
    edited = f"the TBLPROPERTIES or columns of index table {table.full_name} are not what a build wrote"
    return Index(
        definition=written, table=table, problem=f"{edited}: rebuild the index, or drop it and create it again"
    )
