"""Parse the types of nested columns, which are arrays, maps and structs.

Tasks read a nested column only if each of its leaves has one of the types LEAVES, and all names are plain ASCII. With
plain names, the text of a type has one meaning. The type that a query reads may have fewer fields than the table's:
Spark's optimizer leaves out the fields that the query does not need.

The *marks* that a build records for each file (`parquet_nested.marks`) show whether tasks can read the nested columns
of the file. There are three kinds of marks. The lower-case name of a column says that the build has checked the layout
of the column. The path of a part of such a column, with `?` at its end, says that the file lacks this part. A path with
`!` at its end says that only Spark reads this part.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

LEAVES = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|string|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\)"
)
ABSENT, SPARK_ONLY = "?", "!"  # last characters of marks for paths in a column
ELEMENT, KEY, VALUE = "element", "key", "value"  # steps of paths into arrays and maps
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"[A-Za-z0-9_]+(?:\(\d+,\s*\d+\))?|[<>,:]")
_DEEPEST = 16  # most levels of nesting
_JSON_LEAVES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


@dataclass(frozen=True)
class ArrayOf:
    """An array."""

    element: NestedType


@dataclass(frozen=True)
class MapOf:
    """A map; its keys are leaves."""

    key: str
    value: NestedType


@dataclass(frozen=True)
class StructOf:
    """A struct with the names and types of its fields, in their order."""

    fields: tuple[tuple[str, NestedType], ...]


NestedType: TypeAlias = "str | ArrayOf | MapOf | StructOf"  # a text is the type of a leaf


def parse(text: str) -> NestedType | None:
    """Return a nested type from Spark's simple string.

    Return None if the type is not nested, or not supported.

    >>> parse("array<struct<a:int,B:map<string,decimal(7,2)>>>")
    ArrayOf(element=StructOf(fields=(('a', 'int'), ('B', MapOf(key='string', value='decimal(7,2)')))))
    >>> parse("int"), parse("array<char(3)>"), parse("struct<a:int,A:int>")
    (None, None, None)
    """
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        return None
    try:
        type, end = _parse(tokens, 0, _DEEPEST)
    except (IndexError, ValueError):
        return None
    return type if end == len(tokens) and not isinstance(type, str) else None


def _parse(tokens: list[str], at: int, depth: int) -> tuple[NestedType, int]:
    """Parse the type that begins at a token.

    `at` is the position of the token. The type may be nested at most `depth` deep. Return the type, and the position of
    the token after it. Raises ValueError if the tokens are not a supported type, and IndexError if they end too early.
    """
    head = tokens[at]
    if at + 1 >= len(tokens) or tokens[at + 1] != "<":
        return _leaf(head), at + 1
    if not depth:
        raise ValueError("nested too deep")
    if head == "array":
        element, at = _parse(tokens, at + 2, depth - 1)
        return ArrayOf(element), _expected(tokens, at, ">")
    if head == "map":
        key, at = _parse(tokens, at + 2, depth - 1)
        value, at = _parse(tokens, _expected(tokens, at, ","), depth - 1)
        return _map(key, value), _expected(tokens, at, ">")
    if head != "struct":
        raise ValueError(head)
    fields: list[tuple[str, NestedType]] = []
    at += 1
    while tokens[at] != ">":
        name = tokens[at + 1]
        type, after = _parse(tokens, _expected(tokens, at + 2, ":"), depth - 1)
        if tokens[after] not in ",>":
            raise ValueError(tokens[after])
        fields.append((name, type))
        at = after
    return _struct(fields), at + 1


def _expected(tokens: list[str], at: int, token: str) -> int:
    if tokens[at] != token:
        raise ValueError(tokens[at])
    return at + 1


def of_json(value: Any, depth: int = _DEEPEST) -> NestedType | None:
    """Return a nested type from the JSON of Spark's DataType.

    The type may be nested at most `depth` deep. Everything except the keys of maps must be nullable. The result is None
    for an unsupported type.
    """
    try:
        return _of_json(value, depth)
    except (KeyError, TypeError, ValueError):
        return None


def _of_json(value: Any, depth: int) -> NestedType:
    if isinstance(value, str):
        return _leaf(_JSON_LEAVES.get(value, value))
    if not depth:
        raise ValueError("nested too deep")
    match value["type"]:
        case "array" if value["containsNull"]:
            return ArrayOf(_of_json(value["elementType"], depth - 1))
        case "map" if value["valueContainsNull"]:
            return _map(_of_json(value["keyType"], depth - 1), _of_json(value["valueType"], depth - 1))
        case "struct":
            fields = value["fields"]
            if not all(field["nullable"] and set(field["metadata"]) <= {"comment"} for field in fields):
                raise ValueError("a field has a property that may change its values")
            return _struct([(field["name"], _of_json(field["type"], depth - 1)) for field in fields])
    raise ValueError(value["type"])


def _leaf(text: str) -> str:
    if not LEAVES.fullmatch(text):
        raise ValueError(text)
    return text


def _map(key: NestedType, value: NestedType) -> MapOf:
    if not isinstance(key, str):
        raise ValueError("nested keys")
    return MapOf(key, value)


def _struct(fields: list[tuple[str, NestedType]]) -> StructOf:
    names = [name for name, _ in fields]
    if not names or not all(map(_NAME.fullmatch, names)) or len({name.lower() for name in names}) < len(names):
        raise ValueError(names)
    return StructOf(tuple(fields))


def text(type: NestedType) -> str:
    """Return Spark's simple string of a type.

    For a nested type, `parse` turns the string into the type again.

    >>> text(parse("map<string,array<struct<a:int>>>"))
    'map<string,array<struct<a:int>>>'
    """
    match type:
        case ArrayOf(element):
            return f"array<{text(element)}>"
        case MapOf(key, value):
            return f"map<{key},{text(value)}>"
        case StructOf(fields):
            return f"struct<{','.join(f'{name}:{text(inner)}' for name, inner in fields)}>"
    return type


def why_spark_only(column: str, type: NestedType, marks: Collection[str]) -> str:
    """Return why only Spark reads a nested column of a file.

    Return "" if tasks can read the column. `column` is in lower case. `marks` are the marks of the file. One possible
    reason is that the file lacks all fields of a struct. Spark's versions and settings differ in whether such a struct
    is NULL.
    """
    if column not in marks:
        return f"only Spark reads column {column!r} of these files"
    return next(_problems(column, type, frozenset(marks)), "")


def _problems(path: str, type: NestedType, marks: frozenset[str]) -> Iterator[str]:
    if path + SPARK_ONLY in marks:
        yield f"only Spark reads {path!r} of these files"
    elif path + ABSENT not in marks:
        if isinstance(type, StructOf) and all(f"{path}.{name.lower()}{ABSENT}" in marks for name, _ in type.fields):
            yield f"these files have none of the fields of {path!r}"
        for step, inner in inner_types(type):
            yield from _problems(f"{path}.{step.lower()}", inner, marks)


def inner_types(type: NestedType) -> Iterator[tuple[str, NestedType]]:
    """Yield the types directly inside a type, each with its step.

    A step is the name of a struct's field, or ELEMENT, KEY or VALUE for the parts of an array or map. Paths of nested
    fields consist of steps.
    """
    match type:
        case ArrayOf(element):
            yield ELEMENT, element
        case MapOf(key, value):
            yield KEY, key
            yield VALUE, value
        case StructOf(fields):
            yield from fields


def read_types(types: Mapping[str, Any]) -> dict[str, NestedType]:
    """Return the types of a scan's nested columns, by lower-case name.

    `types` has the JSON of the types by column name. Unsupported types are left out.
    """
    parsed = ((name.lower(), of_json(value)) for name, value in types.items())
    return {name: type for name, type in parsed if type is not None and not isinstance(type, str)}
