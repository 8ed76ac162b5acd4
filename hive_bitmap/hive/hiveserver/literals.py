"""Convert literals to values of a column's type.

Only literals with the same value in every session are converted. The allowlist has integers, decimals without an
exponent, single-quoted strings without a backslash, TRUE, FALSE, NULL, and DATE 'yyyy-mm-dd' from 1583 on, where all
calendars agree. Any other literal is left to Spark.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from enum import Enum
from typing import TypeVar

from hive_bitmap.core.predicates.nodes import Value

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_SUFFIX_BITS = {"Y": 8, "S": 16, "L": 64}
CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}
_MAX_DIGITS = 38
_Number = TypeVar("_Number", int, Decimal)
_WIDE = Context(prec=2 * _MAX_DIGITS)
_FIRST_YEAR = 1583  # the hybrid calendar of older writers changes from Julian to Gregorian in 1582


class EngineOnly(Exception):
    """The error for a leaf that this package cannot evaluate; only an engine can."""


@dataclass(frozen=True)
class Literal:
    """The value of a literal.

    For a number, `digits` is the number of digits before the decimal point in Spark's decimal type for the literal;
    otherwise 0.
    """

    value: Value | None
    digits: int = 0


class OutOfRange(Enum):
    """A number below or above all values of the column's type."""

    BELOW = "below"
    ABOVE = "above"


def literal_of(sql: str) -> Literal:
    """Return the value of `sql`, a literal in Spark's SQL as `condition_grammar` gives it.

    Raises EngineOnly if the literal is not on the allowlist.
    """
    if sql in CONSTANTS:
        return Literal(CONSTANTS[sql])
    if sql.startswith("DATE "):
        return Literal(_date(sql.removeprefix("DATE ")))
    return Literal(sql[1:-1]) if sql[0] == "'" else _number(sql)


def value_of(literal: Literal, column_type: str) -> Value | OutOfRange:
    """Return a literal other than NULL as a value of the column's type.

    Return OutOfRange for a number below or above all values of the type. Raises EngineOnly if the literal is of another
    kind than the column, such as a string for an int column, or if Spark may lose digits when it compares the two.
    """
    value = literal.value
    match value:
        case bool() if column_type == "boolean":
            return value
        case bool():
            raise EngineOnly
        case str() if column_type == "string" or column_type.startswith("varchar("):
            return value
        case date() if column_type == "date":
            return value
        case int() if column_type in _INTEGER_BITS:
            return _integer_in(value, _INTEGER_BITS[column_type])
        case int() | Decimal() if form := re.fullmatch(r"decimal\(([0-9]+), ?([0-9]+)\)", column_type):
            return _decimal(literal, int(form[1]), int(form[2]))
        case _:
            raise EngineOnly


def _number(text: str) -> Literal:
    if integer := re.fullmatch(r"(-?)([0-9]+)([LSY]?)", text.upper()):
        return _integer(int(integer[2]), integer[3], bool(integer[1]))
    decimal = re.fullmatch(r"(-?)0*([0-9]*)\.([0-9]*)", text)
    if decimal is None or len(decimal[2]) + len(decimal[3]) > _MAX_DIGITS:
        raise EngineOnly
    return Literal(Decimal(f"{decimal[1]}{decimal[2] or '0'}.{decimal[3]}"), len(decimal[2]))


def _integer(size: int, suffix: str, minus: bool) -> Literal:
    """Return an integer literal with the digits of its type.

    `size` is the absolute value, and `suffix` the letter after the digits ("" without a letter). `minus` says whether
    the literal is negative. Without a suffix, the type is int if the literal fits, else bigint, else a decimal of the
    literal's length. The suffix L makes it a bigint; a literal with the suffix Y or S counts as an int. For int and
    bigint, the digits are those of the decimal type to which Spark widens the type:
    https://github.com/apache/spark/blob/v4.0.0/sql/api/src/main/scala/org/apache/spark/sql/types/DecimalType.scala
    """
    if suffix and size >= 1 << (_SUFFIX_BITS[suffix] - 1):
        raise EngineOnly  # Spark raises if the literal does not fit the type of its suffix
    digits = 20 if suffix == "L" or size >= 1 << 31 else 10
    digits = digits if size < 1 << 63 else len(str(size))
    if digits > _MAX_DIGITS:
        raise EngineOnly
    return Literal(-size if minus else size, digits)


def _date(text: str) -> date:
    if re.fullmatch(r"'[0-9]{4}-[0-9]{2}-[0-9]{2}'", text):
        with suppress(ValueError):  # not a date of the calendar: Spark raises, or decides what the text means
            day = date.fromisoformat(text[1:-1])
            if day.year >= _FIRST_YEAR:
                return day
    raise EngineOnly


def _integer_in(value: int, bits: int) -> int | OutOfRange:
    """Return an integer as a value of an integer type of `bits` bits.

    Raises EngineOnly if the integer does not fit bigint.
    """
    if not -(1 << 63) <= value < 1 << 63:
        raise EngineOnly  # the literal is a decimal, and up to Spark 4.3 `big < 9223372036854775808` is TRUE for NULL
    limit = 1 << (bits - 1)
    return _within(value, -limit, limit - 1)


def _decimal(literal: Literal, precision: int, scale: int) -> Decimal | OutOfRange:
    """Return the number `literal` as a value of the type decimal(precision, scale).

    Raises EngineOnly if comparing the number with a decimal(precision, scale) column may lose digits. Spark converts
    both to a common decimal type, and rounds if the common type would need more than 38 digits.
    """
    value = Decimal(str(literal.value))
    if -int(value.as_tuple().exponent) > scale or max(precision - scale, literal.digits) + scale > _MAX_DIGITS:
        raise EngineOnly
    largest = Decimal(10**precision - 1).scaleb(-scale, _WIDE)
    return _within(value.quantize(Decimal(1).scaleb(-scale), context=_WIDE), -largest, largest)


def _within(value: _Number, lowest: _Number, highest: _Number) -> _Number | OutOfRange:
    if value < lowest:
        return OutOfRange.BELOW
    return OutOfRange.ABOVE if value > highest else value
