"""Write Spark's SQL statements that change tables.

No session is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import Table, Values, in_spark, literal, partition_spec, quote

AT_ONCE = 200  # partitions in one statement or call
OWN_STATEMENT = "/* hive_bitmap */"  # marks a DROP of this package, with which the extension drops no index


def creating(table: Table) -> str:
    """Return the statement that creates an external Parquet table.

    `table` describes the new table, as in `Metastore.create_table`; its owner is ignored. For a table whose provider is
    `hive`, the statement also runs in Hive.
    """
    properties = dict(table.properties)
    comment = properties.pop("comment", "")
    set_to = ", ".join(f"{literal(key)}={literal(value)}" for key, value in properties.items())
    if table.provider == "hive":
        by, own = _columns(table.partition_columns), _columns(table.columns)
    else:
        by = ", ".join(quote(column.name) for column in table.partition_columns)
        own = _columns((*table.columns, *table.partition_columns))
    return (
        f"CREATE {'EXTERNAL ' if table.provider == 'hive' else ''}TABLE {table.spark_name} ({own})"
        f"{' STORED AS PARQUET' if table.provider == 'hive' else ' USING parquet'}"
        f"{f' PARTITIONED BY ({by})' if by else ''}{f' COMMENT {literal(comment)}' if comment else ''}"
        f" LOCATION {literal(table.location)}{f' TBLPROPERTIES ({set_to})' if set_to else ''}"
    )


def dropping_table(name: str, *, if_exists: bool, purge: bool) -> str:
    """Return the statement that drops a table, given by its name in Spark's SQL."""
    return f"{OWN_STATEMENT} DROP TABLE {_if_exists(if_exists)}{name}{' PURGE' if purge else ''}"


def dropping_database(database: str, *, if_exists: bool) -> str:
    """Return the statement that drops a database with its tables."""
    return f"{OWN_STATEMENT} DROP DATABASE {_if_exists(if_exists)}{in_spark(database)} CASCADE"


def renaming(table: Table, name: str) -> str:
    """Return the statement that renames a table inside its database."""
    return f"ALTER TABLE {table.spark_name} RENAME TO {quote(table.database)}.{quote(name)}"


def setting(table: Table, properties: Mapping[str, str], unset: Collection[str] = ()) -> Iterator[str]:
    """Yield the statements that set properties of a table.

    The statements also unset the properties in `unset` that the table has.
    """
    if properties:
        pairs = ", ".join(f"{literal(key)}={literal(value)}" for key, value in properties.items())
        yield f"ALTER TABLE {table.spark_name} SET TBLPROPERTIES ({pairs})"
    unwanted = [key for key in unset if key in table.properties]
    if unwanted:
        yield f"ALTER TABLE {table.spark_name} UNSET TBLPROPERTIES IF EXISTS ({', '.join(map(literal, unwanted))})"


def moving(table: Table, folders: Mapping[Values, str]) -> Iterator[str]:
    """Yield the statements that move a table or its partitions, one by one.

    `folders` has the new folder of each partition by its values. An unpartitioned table has its new folder under the
    key ().
    """
    for values, folder in folders.items():
        partition = f"PARTITION {partition_spec(table, values)} " if values else ""
        yield f"ALTER TABLE {table.spark_name} {partition}SET LOCATION {literal(folder)}"


def adding(table: Table, new: Mapping[Values, str], *, if_not_exists: bool = False) -> str:
    """Return the statement that adds partitions to a table.

    `new` has the folder of each partition.
    """
    specs = [f"PARTITION {partition_spec(table, values)} LOCATION {literal(folder)}" for values, folder in new.items()]
    return f"ALTER TABLE {table.spark_name} ADD {'IF NOT EXISTS ' if if_not_exists else ''}{' '.join(specs)}"


def batches(new: Mapping[Values, str]) -> Iterator[Mapping[Values, str]]:
    """Yield partitions with their folders in batches of at most AT_ONCE."""
    for start in range(0, len(new), AT_ONCE):
        yield dict(islice(new.items(), start, start + AT_ONCE))


def _if_exists(if_exists: bool) -> str:
    return "IF EXISTS " if if_exists else ""


def _columns(columns: Iterable[Column]) -> str:
    return ", ".join(f"{quote(column.name)} {column.type}" for column in columns)
