"""Which columns of a query's result are columns of what it reads, so that a condition may be asked of these.

In a set operation columns are the same by position. Spark makes their types alike: only where they are already does a
condition mean the same in each arm. All set operations compare whole rows, so to leave out rows of every arm that fail
a condition is to leave these out of the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hive_bitmap.columns import Column
from hive_bitmap.index.metastore import quote
from hive_bitmap.query.names import path_at
from hive_bitmap.query.rewrite.tree import NAMES_OF_ALL, Block, CteUse, Derived, Query, Scan, Source, name_of
from hive_bitmap.query.tokens import tokenize

Look = Callable[[Scan], Sequence[Column] | None]
# CHAR is left out: a set operation may forget that Spark pads it.
_COMPARED_AS_THEY_ARE = re.compile(
    r"tinyint|smallint|int|bigint|boolean|date|string|decimal\(\d+, ?\d+\)|float|double|timestamp|timestamp_ntz|binary"
)


_Columns = Mapping[str, str]  # the types of columns by their names


@dataclass(frozen=True)
class Output:
    """A column of a result: its name, the column that it is inside, as text, and its type; empty what is not known."""

    name: str
    source: str
    type: str


def nothing(scan: Scan) -> None:
    """The columns of a table of which nothing is known."""


def passed(query: Query, look: Look) -> list[Mapping[str, str] | None]:
    """For each arm, what the names of the result are inside, as text; None where they are the same."""
    if len(query.arms) > 1:
        return list(_by_position(query, look))
    arm = query.arms[0]
    if isinstance(arm, Query) or arm.passes:
        return [None if isinstance(arm, Query) else arm.outputs]
    return [{name: source for name, source in (arm.outputs or {}).items() if source in arm.grouped}]


def _by_position(query: Query, look: Look) -> Iterator[Mapping[str, str]]:
    outputs = [_outputs(arm, look) for arm in query.arms]
    known = [row for row in outputs if row is not None]
    if len(known) < len(query.arms) or len({len(row) for row in known}) > 1:
        yield from ({} for _ in query.arms)
        return
    names = [output.name for output in known[0]]
    for arm, row in zip(query.arms, known, strict=True):
        yield {
            name: output.source
            for name, output, column in zip(names, row, zip(*known, strict=True), strict=True)
            if name and names.count(name) == 1 and output.source and _type_of_all(column) and _passes(arm, output)
        }


def _passes(arm: Block | Query, output: Output) -> bool:
    return isinstance(arm, Query) or arm.passes or output.source in arm.grouped


def _type_of_all(column: Sequence[Output]) -> str:
    """The type that a column has in all arms; empty if Spark may change it."""
    types = {output.type for output in column}
    return types.pop() if len(types) == 1 else ""


def _outputs(arm: Block | Query, look: Look) -> list[Output] | None:
    """The columns of a result; None where even their number is not known."""
    return _of_query(arm, look) if isinstance(arm, Query) else _of_block(arm, look)


def _of_query(query: Query, look: Look) -> list[Output] | None:
    """The columns of a result, as the names that they have there."""
    rows = [row for row in (_outputs(arm, look) for arm in query.arms) if row is not None]
    if len(rows) < len(query.arms) or len({len(row) for row in rows}) > 1:
        return None
    names = [output.name for output in rows[0]]
    return [
        Output(name, quote(name) if name and names.count(name) == 1 else "", _type_of_all(column))
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    ]


def _of_block(block: Block, look: Look) -> list[Output] | None:
    joins = [join for item in block.items for join in item]
    if block.row is None or any(join.merged for join in joins):
        return None
    sources = [(join.source, _of_source(join.source, look)) for join in joins if join.kind not in ("SEMI", "ANTI")]
    outputs: list[Output] = []
    for item in block.row:
        if item.name != NAMES_OF_ALL:
            outputs.append(Output(item.name, item.source, _type(item.source, sources) if item.source else ""))
            continue
        if item.source and item.source not in [name_of(source) for source, _ in sources]:
            return None  # the fields of a struct
        meant = [one for one in sources if item.source in ("", name_of(one[0]))]
        if not meant or any(columns is None for _, columns in meant):
            return None  # it may be the fields of a struct
        for source, columns in meant:
            before = f"{quote(name_of(source))}." if name_of(source) else ""
            for name, kind in (columns or {}).items():
                text = before + quote(name) if _means_one(name_of(source), name, sources) else ""
                outputs.append(Output(name, text, kind))
    return outputs


def _means_one(alias: str, name: str, sources: Sequence[tuple[Source, _Columns | None]]) -> bool:
    """Whether only one source has a column that is called so, behind the alias if there is one."""
    near = [columns for source, columns in sources if alias in ("", name_of(source))]
    return sum(columns is None or name in columns for columns in near) == 1


def _of_source(source: Source, look: Look) -> _Columns | None:
    """The columns of a source, none of them twice; None if they are not known."""
    match source:
        case Scan():
            columns = look(source)
            found = None if columns is None else [(column.name.lower(), column.type) for column in columns]
        case Derived(query, _, False):
            found = _named(_of_query(query, look))
        case CteUse(cte, _, False) if not cte.renamed:
            found = _named(_of_query(cte.query, look))
        case _:
            found = None
    if found is None or len(dict(found)) < len(found):
        return None
    return {name: kind if _COMPARED_AS_THEY_ARE.fullmatch(kind) else "" for name, kind in found}


def _named(outputs: Sequence[Output] | None) -> list[tuple[str, str]] | None:
    if outputs is None or not all(output.name for output in outputs):
        return None
    return [(output.name, output.type) for output in outputs]


def _type(text: str, sources: Sequence[tuple[Source, _Columns | None]]) -> str:
    """The type of a dotted name; empty if it is not one column of one of these sources."""
    path, _ = path_at(tokenize(text), 0)
    *qualifier, name = path
    near = [columns for source, columns in sources if len(qualifier) <= 1 and qualifier in ([], [name_of(source)])]
    found = [columns[name] for columns in near if columns is not None and name in columns]
    return found[0] if len(found) == 1 and None not in near else ""
