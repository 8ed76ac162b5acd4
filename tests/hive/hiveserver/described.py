"""A server of this machine's folders that also describes tables, as Hive 4 and Spark's Thrift Server print them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hive_bitmap.core.table_info import Table, Values, literal, quote
from hive_bitmap.hive.hiveserver.connection import Server
from tests.hive.hiveserver.folders import Error, Folders

Row = tuple[Any, ...]


class Described(Folders):
    """The connection. `answers` are the rows by statement; what else is asked is an error or a matter of folders."""

    def __init__(self, answers: Mapping[str, Sequence[Row]], settings: tuple[str, ...] = ()) -> None:
        super().__init__(settings=settings)
        self._answers = answers

    def execute(self, statement: str) -> None:
        if statement in self._answers:
            self.statements.append(statement)
            self._rows = list(self._answers[statement])
        elif statement.startswith(("dfs ", "SET ")):
            super().execute(statement)
        else:
            raise Error(f"FAILED: SemanticException {statement}")


def hive(answers: Mapping[str, Sequence[Row]], settings: tuple[str, ...] = ()) -> Server:
    return _server(answers, settings, is_spark=False)


def spark(answers: Mapping[str, Sequence[Row]], settings: tuple[str, ...] = ()) -> Server:
    return _server(answers, settings, is_spark=True)


def _server(answers: Mapping[str, Sequence[Row]], settings: tuple[str, ...], is_spark: bool) -> Server:
    made = Server(Described(answers, settings), "HS2")
    made.__dict__["is_spark"] = is_spark  # which it would ask the server
    return made


def formatted(table: Table) -> list[Row]:
    """Return how Hive describes a table."""
    rows: list[Row] = [("# col_name            ", "data_type           ", "comment             ")]
    rows += [(column.name, column.type, "") for column in table.columns]
    if table.partition_columns:
        rows += [("", None, None), ("# Partition Information", None, None), ("# col_name ", "data_type ", "comment ")]
        rows += [(column.name, column.type, "") for column in table.partition_columns]
    rows += [
        ("", None, None),
        ("# Detailed Table Information", None, None),
        ("Database:           ", table.database, None),
        ("Owner:              ", table.owner, None),
        ("Location:           ", table.location, None),
        ("Table Type:         ", f"{table.kind}_TABLE", None),
        ("Table Parameters:", None, None),
        *(("", f"{key} ", f"{escaped(value)} ") for key, value in table.properties.items()),
        *_storage(table.serde, table.input_format, table.options),
    ]
    return rows


def formatted_partition(table: Table, values: Sequence[str | None], location: str) -> list[Row]:
    """Return how Hive describes a partition of a table."""
    return [
        *formatted(table)[: len(table.columns) + len(table.partition_columns) + 4],
        ("", None, None),
        ("# Detailed Partition Information", None, None),
        ("Partition Value:    ", f"{list(values)}", None),
        ("Location:           ", location, None),
        ("Partition Parameters:", None, None),
        ("", "numFiles            ", "1                   "),
        *_storage(table.serde, table.input_format, table.options),
    ]


def _storage(serde: str, input_format: str, options: Mapping[str, str]) -> list[Row]:
    return [
        ("", None, None),
        ("# Storage Information", None, None),
        ("SerDe Library:      ", serde, None),
        ("InputFormat:        ", input_format, None),
        ("Compressed:         ", "No", None),
        ("Storage Desc Params:", None, None),
        *(("", key, escaped(value)) for key, value in options.items()),
    ]


def escaped(value: str) -> str:
    """Escape a value as Java does for Hive, which prints properties so."""
    return json.dumps(value)[1:-1]


def lake(*tables: Table, partitions: Mapping[str, Mapping[Values, str]] | None = None) -> dict[str, list[Row]]:
    """Return what Hive answers if it has these tables; `partitions` are folders by values, by the names of tables."""
    databases = sorted({table.database for table in tables})
    answers: dict[str, list[Row]] = {
        "SHOW DATABASES": [("default",), *((database,) for database in databases)],
        **{f"DESCRIBE FORMATTED {table.sql_name}": formatted(table) for table in tables},
    }
    for database in databases:
        answers[f"SHOW TABLES IN {quote(database)}"] = [(t.name,) for t in tables if t.database == database]
    for table in tables:
        names = [column.name for column in table.partition_columns]
        folders = (partitions or {}).get(table.name, {})
        paths = ["/".join(map("=".join, zip(names, map(str, values), strict=True))) for values in folders]
        answers[f"SHOW PARTITIONS {table.sql_name}"] = [(path,) for path in paths]
        for values, folder in folders.items():
            spec = ", ".join(f"{quote(name)}={literal(str(value))}" for name, value in zip(names, values, strict=True))
            said = f"DESCRIBE FORMATTED {table.sql_name} PARTITION ({spec})"
            answers[said] = formatted_partition(table, values, folder)
    return answers
