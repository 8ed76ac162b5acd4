"""Random conditions and values over named columns, drawn from a seed: what SQL has to say of one row.

Values are those that the star schema holds, or nearly; literals are of the column's type or of another one that Spark
compares with it. What Spark refuses to evaluate (a cast that ANSI forbids) is rare on purpose.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

VALUES = {
    "store_id": "1|3|8|9|12|99", "item_id": "1|2|7|30|58|60", "sale_id": "5|100|560", "customer_id": "4|17|90|129",
    "channel": "'web'|'store'|'catalog'|'phone'|'none'|'Web'", "quantity": "1|2|3|10", "amount": "50.00|500|990.5",
    "returned": "true|false", "day": "DATE'2023-01-20'|DATE'2024-02-29'|DATE'2024-11-11'",
    "reason": "'late'|'damaged'|'wrong item'", "refunded": "20|60.5", "year": "2023|2024", "opened": "DATE'2022-01-01'",
    "city": "'Boston'|'Fresno'|'Denver'", "state": "'IL'|'MA'|'TX'", "category": "'Books'|'Music'",
    "brand": "'Brand#1'|'Brand#4'", "price": "10.5|60", "segment": "'BUILDING'|'MACHINERY'", "born": "DATE'1970-01-01'",
    "month": "1|2|7|12", "weekday": "1|6", "holiday": "true|false", "percent": "10|40", "carrier": "'UA'|'HA'|'OO'",
    "origin": "'JFK'|'EWR'", "dest": "'ANC'|'ORD'|'HNL'", "dep_time": "600|1200|2300", "distance": "187|4983",
    "arr_delay": "-10|0|100", "tailnum": "'N001'|'N030'", "flight": "17|250", "note": "'note 3'|'note 12'",
    "sold_at": "TIMESTAMP'2023-05-01 00:00:00'|TIMESTAMP'2024-03-01T10:00:00Z'", "faa": "'ORD'|'XNA'", "tz": "-5|-9",
    "small": "-128|0|3|127", "ratio": "0.5D|0.0D|-0.0D|double('NaN')|1e300|2", "single": "0.5F|0.1F|float('inf')|0",
    "code": "'a'|'ab'|'ab  '|'abcd'|'web'", "label": "'web'|'phone'|'a '|''", "exact": "0.50|3|9.99|50.00",
    "moment": "TIMESTAMP'2023-03-26 01:30:00'|TIMESTAMP'2024-03-01T10:00:00Z'", "kind": "'a'|'b c'|'x=y'",
}  # fmt: skip
ODD = {  # literals of other types than the column's
    "number": "'3'|3.0|2.5D|3L|3S|1e0|3000000000|0|-1|NULL|CAST(3 AS TINYINT)|99999999999999999999|CAST('9' AS INT)",
    "text": "NULL|''|'web '|upper('web')|'we' 'b'|\"web\"|r'web'|'wéb'|concat('U', 'A')|'a%'|'\\u0077eb'|1",
    "date": "'2023-01-20'|'2024-2-29'|NULL|TIMESTAMP'2024-02-29 00:00:00'|TIMESTAMP'2023-01-20 01:00:00'|'2024'"
    "|date_add(DATE'2023-01-19', 1)|DATE'2024-02-28' + INTERVAL 1 DAY|CAST('2023-01-20' AS DATE)|current_date()",
    "timestamp": "'2023-05-01'|DATE'2023-05-01'|NULL|TIMESTAMP_NTZ'2024-03-01 10:00:00'|'2024-03-01 10:00:00'",
    "boolean": "NULL|'true'|(1 = 1)|(NOT true)|CAST('false' AS BOOLEAN)",
}
FUNCTIONS = {
    "number": "{c} % 3 = 1|{c} + 1 > 3|abs({c}) < 3|CAST({c} AS STRING) LIKE '%1%'|coalesce({c}, 0) = 0|-{c} < 0"
    "|try_divide(10, {c}) > 2|CAST({c} AS DOUBLE) = 1.0|{c} BETWEEN 1 AND 3 OR {c} > 50|nullif({c}, 1) IS NULL"
    "|{c} * 2 IN (2, 6)|round({c} / 2) = 1|greatest({c}, 2) = 2|hash({c}) % 2 = 0|isnan({c})",
    "text": "upper({c}) = 'WEB'|length({c}) > 3|{c} LIKE 'w%'|{c} NOT LIKE '%e%'|{c} LIKE '_e%'|{c} RLIKE '^[bw]'"
    "|{c} ILIKE 'WEB'|substr({c}, 1, 1) = 'p'|{c} LIKE 'web'|{c} LIKE ANY ('w%', 'B%')|concat({c}, 'x') = 'webx'"
    "|trim({c}) = 'a'|{c} COLLATE UTF8_LCASE = 'WEB'|startswith({c}, 'B')|{c} LIKE 'a!%' ESCAPE '!'|{c} > 'c'"
    "|ifnull({c}, 'web') = 'web'|{c} NOT LIKE ALL ('w%', 'p%')|regexp_replace({c}, 'e', '') <> {c}",
    "date": "year({c}) = 2023|month({c}) IN (2, 7)|{c} + 1 > DATE'2024-11-11'|CAST({c} AS STRING) LIKE '2023-0%'"
    "|date_trunc('YEAR', {c}) = DATE'2024-01-01'|datediff({c}, DATE'2023-12-31') < 0|dayofweek({c}) = 1"
    "|{c} > DATE'2024-12-01' - INTERVAL 10 DAYS|date_format({c}, 'yyyyMM') = '202402'|extract(MONTH FROM {c}) = 2",
    "timestamp": "year({c}) = 2023|hour({c}) = 10|CAST({c} AS DATE) = DATE'2024-03-01'|{c} >= '2024-06-01'",
    "boolean": "{c}|NOT {c}|{c} IS TRUE|{c} IS NOT TRUE|{c} IS FALSE|{c} IS UNKNOWN|NOT coalesce({c}, false)"
    "|CAST({c} AS INT) = 1|if({c}, 1, 0) = 0|({c}) = (NOT {c})",
}


@dataclass(frozen=True)
class Named:
    """A column as a query names it: the text, the plain name, and Spark's type."""

    text: str
    name: str
    type: str

    @property
    def family(self) -> str:
        base = self.type.partition("(")[0]
        return {"string": "text", "varchar": "text", "char": "text"}.get(
            base, base if base in ("date", "timestamp", "boolean") else "number"
        )


def condition(rng: random.Random, columns: Sequence[Named], depth: int = 0) -> str:
    """A condition over some columns."""
    if depth < 2 and rng.random() < 0.25:
        word = rng.choice([" AND ", " OR ", " OR "])
        text = "(" + word.join(condition(rng, columns, depth + 1) for _ in range(rng.choice([2, 2, 3]))) + ")"
        return f"NOT {text}" if rng.random() < 0.25 else text
    column = rng.choice(columns)
    if rng.random() < 0.03:
        return _constant(rng)
    if rng.random() < 0.12:
        others = [other for other in columns if other.family == column.family and other != column]
        if others:
            return f"{column.text} {rng.choice(['=', '<', '<>', '<=>', '>='])} {rng.choice(others).text}"
    if rng.random() < 0.2:
        return "(" + rng.choice(FUNCTIONS[column.family].split("|")).format(c=column.text) + ")"
    return _compared(rng, column)


def value(rng: random.Random, column: Named) -> str:
    """A literal to compare a column with."""
    odd = rng.random() < 0.12 or column.name not in VALUES
    return rng.choice((ODD[column.family] if odd else VALUES[column.name]).split("|"))


def _compared(rng: random.Random, column: Named) -> str:
    c, one, two = column.text, value(rng, column), value(rng, column)
    return rng.choice(
        [
            f"{c} = {one}",
            f"{c} = {one}",
            f"{c} IN ({one}, {two}, {value(rng, column)})",
            f"{c} {rng.choice(['>', '>=', '<>'])} {one}",
            f"{one} {rng.choice(['=', '<', '>=', '<=>'])} {c}",
            f"{c} {rng.choice(['<', '>=', '<>', '<=>', '>', '<=', '!=', '=='])} {one}",
            f"{c} IN ({one}, {two})",
            f"{c} IN ({one}, {two}, NULL)",
            f"{c} NOT IN ({one}, {two})",
            f"{c} NOT IN ({one}, NULL)" if rng.random() < 0.3 else f"{c} IN ({one})",
            f"{c} BETWEEN {one} AND {two}",
            f"{c} NOT BETWEEN {one} AND {two}",
            f"{c} IS NULL",
            f"{c} IS NOT NULL",
            f"{c} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {one}",
            f"coalesce({c} = {one}, true)",
            f"({c} = {one}) IS {rng.choice(['', 'NOT '])}{rng.choice(['NULL', 'TRUE', 'FALSE'])}",
            f"CASE WHEN {c} = {one} THEN true ELSE {c} IS NULL END",
            f"CASE {c} WHEN {one} THEN true WHEN {two} THEN false END",
            f"if({c} = {one}, NULL, true)",
            f"array_contains(array({one}, {two}), {c})",
            f"{c} = (SELECT {one})",
        ]
    )


def _constant(rng: random.Random) -> str:
    return rng.choice(["true", "false", "NULL", "1 = 1", "1 > 2", "NULL = 1", "CAST(NULL AS BOOLEAN)", "NOT NULL"])
