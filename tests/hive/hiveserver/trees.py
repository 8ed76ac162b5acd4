"""Cases of the form `text => tree`, one a line, over columns of all types.

In the trees {reason} is an Unknown, {} one that only an engine evaluates; everything else is SQL.
"""

from __future__ import annotations

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import And, Or, Predicate, Unknown
from tests.hive.hiveserver.rendering import to_sql

TYPES = {
    "a": "int",
    "tiny": "tinyint",
    "big": "bigint",
    "s": "string",
    "v": "varchar(5)",
    "c": "char(4)",
    "lc": "string collate UTF8_LCASE",
    "flag": "boolean",
    "d": "date",
    "ts": "timestamp",
    "m": "decimal(5,2)",
    "w": "decimal(38,36)",
    "f": "double",
    "b": "binary",
    "st": "struct<f:int,end:int>",
    "start": "int",
    "show": "int",
    "odd name": "int",
    "user": "string",
}
COLUMNS = [Column(name, kind) for name, kind in TYPES.items()]


def cases(table: str) -> list[tuple[str, str]]:
    lines = [line.rpartition(" => ") for line in table.splitlines() if line]
    return [(text.strip(), tree.strip()) for text, _, tree in lines]


def shown(predicate: Predicate) -> str:
    match predicate:
        case And(children):
            return f"({' AND '.join(map(shown, children))})"
        case Or(children):
            return f"({' OR '.join(map(shown, children))})"
        case Unknown(_, reason):
            return f"{{{reason.replace('only an engine evaluates it', '')}}}"
        case _:
            return to_sql(predicate)
