"""The allowlist of leaves that Spark may evaluate once for each distinct key: deterministic ones over one column.

Each word, symbol and name in such a leaf must be on the allowlist. Any other leaf (with rand, current_date, a subquery,
a parameter, a window, a lambda, a user-defined function, or a nested field) is left to Spark, which evaluates it for
each row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap.columns import Column
from hive_bitmap.predicates.column_names import Names, path_at
from hive_bitmap.predicates.tokens import Token


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS = _words(
    """
    AND OR NOT IN IS NULL TRUE FALSE UNKNOWN LIKE ILIKE RLIKE REGEXP BETWEEN ESCAPE ANY SOME ALL DISTINCT FROM FOR
    CASE WHEN THEN ELSE END CAST TRY_CAST AS DIV COLLATE INTERVAL BOTH LEADING TRAILING PLACING EXTRACT
    BOOLEAN TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE DECIMAL DEC NUMERIC STRING CHAR
    CHARACTER VARCHAR BINARY DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ
    YEAR YEARS QUARTER MONTH MONTHS WEEK WEEKS DAY DAYS DAYOFWEEK DAYOFYEAR DOW DOY HOUR HOURS MINUTE MINUTES SECOND
    SECONDS MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS TO
    """
)
_FUNCTIONS = _words(
    """
    abs acos acosh add_months aes_decrypt array array_contains array_distinct array_join array_max array_min
    array_position array_size ascii asin asinh atan atan2 atanh base64 bigint bin binary bit_count bit_get bit_length
    boolean bround btrim cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce concat
    concat_ws contains conv convert_timezone cos cosh cot crc32 csc date date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear decimal decode degrees div double elt encode endswith equal_null exp expm1 extract factorial
    find_in_set float floor format_number format_string from_unixtime from_utc_timestamp get_json_object getbit
    greatest hash hex hour hypot if ifnull ilike initcap instr int isnan isnotnull isnull json_array_length
    json_object_keys lcase least left len length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim
    luhn_check make_date make_timestamp mask md5 minute mod month monthname months_between nanvl negative next_day
    nullif nullifzero nvl nvl2 octet_length overlay parse_url pmod position positive pow power printf quarter radians
    regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr
    repeat replace reverse right rint rlike round rpad rtrim sec second sentences sha sha1 sha2 shiftleft shiftright
    shiftrightunsigned sign signum sin sinh size smallint soundex space split split_part sqrt startswith str_to_map
    string substr substring substring_index tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds
    timestampadd timestampdiff tinyint to_binary to_char to_date to_number to_timestamp to_unix_timestamp
    to_utc_timestamp to_varchar translate trim trunc try_add try_cast try_divide try_element_at try_mod
    try_multiply try_subtract try_to_binary try_to_number try_to_timestamp typeof ucase unbase64 unhex unix_date
    unix_micros unix_millis unix_seconds upper url_decode url_encode weekday weekofyear width_bucket xxhash64 year
    zeroifnull
    """.upper()
)
_SYMBOLS = _words("( ) [ ] , + - * / % || = == <=> <> != < <= !> > >= !< ! & | ^ ~ << >> >>> ::")
# An index stores -0.0 as 0.0, and every NaN as one NaN. An expression that can tell these apart must not be evaluated
# over its keys, so fewer words are allowed for a floating-point column.
_FLOATING = ("float", "double")
_FLOATING_WORDS = _words("AND OR NOT IN IS NULL TRUE FALSE BETWEEN DISTINCT FROM ISNAN ISNULL ISNOTNULL ABS")
_FLOATING_SYMBOLS = _words("( ) , + - * = == <=> <> != < <= !> > >= !< !")
_NOW = re.compile(r"(?i)\s*(now|today|tomorrow|yesterday)\b")  # cast to a date, these depend on the current day
_COLLATION = re.compile(r"(?i)(UTF8|UNICODE|[a-z]{2,3}(_|$))\w*")


@dataclass(frozen=True)
class RowByRow:
    """A leaf that Spark has to evaluate for each row, and why it may not be evaluated for each distinct key."""

    reason: str


def deterministic_column(tokens: Sequence[Token], names: Names) -> Column | RowByRow:
    """Return the one column of a leaf that may be evaluated for each distinct key; RowByRow for any other leaf."""
    columns: dict[str, Column] = {}
    at = 0
    while at < len(tokens):
        parts, after = path_at(tokens, at)
        after = max(after, at + 1)
        called = after < len(tokens) and tokens[after].key == "("
        column = None if called else names.resolve(parts)
        if column is not None:
            columns[column.name] = column
        else:
            before = tokens[at - 1].key if at else ""
            reason = _name_problem(tokens[at:after], before, called, names) if parts else _token_problem(tokens[at])
            if reason is not None:
                return RowByRow(reason)
        at = after
    return _one_column(tokens, list(columns.values()))


def _name_problem(path: Sequence[Token], before: str, called: bool, names: Names) -> str | None:
    """Return why a name that is not a column rules the leaf out; None if it is on the allowlist.

    `before` is the key of the token before it. `called` says that an opening parenthesis follows.
    """
    written = "".join(token.text for token in path)
    key = path[0].key if len(path) == 1 else ""
    if called:
        aggregate = key in ("ANY", "SOME", "ALL") and before not in ("LIKE", "ILIKE")
        known = key in _FUNCTIONS or (key in _KEYWORDS and not aggregate)
        return None if known else f"{written} is not known to be deterministic"
    if key in _KEYWORDS or (before == "COLLATE" and _COLLATION.fullmatch(written)):
        return None
    if len(path) > 1 and names.holds(path[0].text.strip("`")):
        return f"{written} is a nested field"
    return f"{written} is no column of the table"


def _token_problem(token: Token) -> str | None:
    """Return why a literal or symbol rules the leaf out; None if it is on the allowlist."""
    if token.kind in ("symbol", "word", "name"):
        return None if token.key in _SYMBOLS else f"{token.text} is not understood"
    if token.kind == "string" and _NOW.match(token.text[1:-1]):
        return f"{token.text} may mean another day later"
    return None


def _one_column(tokens: Sequence[Token], columns: Sequence[Column]) -> Column | RowByRow:
    if len(columns) != 1:
        return RowByRow("it compares several columns" if columns else "it tests no column")
    if len(tokens) == 1:
        return RowByRow(f"{tokens[0].text} is not boolean")
    if _has_outer_comma(tokens):
        return RowByRow("it is a list")
    if columns[0].type in _FLOATING and not all(map(_float_safe, tokens)):
        return RowByRow("it may tell 0.0 from -0.0, of which the index keeps one")
    return columns[0]


def _has_outer_comma(tokens: Sequence[Token]) -> bool:
    depth = 0
    for token in tokens:
        depth += (token.key in ("(", "[")) - (token.key in (")", "]"))
        if token.key == "," and not depth:
            return True
    return False


def _float_safe(token: Token) -> bool:
    match token.kind:
        case "symbol":
            return token.key in _FLOATING_SYMBOLS or token.key == "."
        case "word":
            return token.key in _FLOATING_WORDS or token.key not in _KEYWORDS | _FUNCTIONS
        case kind:
            return kind in ("number", "name")
