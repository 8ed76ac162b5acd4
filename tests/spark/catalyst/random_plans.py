"""Random plans: SELECTs put together of everything that may stand between an aggregation and a scan, and above.

The rows of each, as a multiset, do not depend on the order in which they are read: what does (the zero that stands for
a group's zeros, the spelling that stands for a collated group) is shown in a form that hides it, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.spark.catalyst.draws import Draw
from tests.spark.catalyst.plan_tables import SUMMED_BY, TABLES

Columns = Mapping[str, str]
KINDS = ("int", "text", "long", "dec", "float", "date", "ts", "bool", "ctext")
LITERALS = {
    "int": "3|0|1|NULL|2147483647|CAST(3 AS TINYINT)",
    "long": "1L|0L|9223372036854775807L|NULL",
    "text": "'a'|'A1'|''|'a '|NULL|'3'",
    "ctext": "'a1' COLLATE UTF8_LCASE",
    "bool": "true|false|NULL",
    "dec": "0.0000000001|1.5|0|99999999999999999999.5|NULL",
    "float": "0.0D|-0.0D|0.1D|0.1F|double('NaN')|float('inf')",
    "date": "DATE'2024-02-29'|DATE'1970-01-01'|NULL",
    "ts": "TIMESTAMP'2024-03-10 10:30:00Z'|TIMESTAMP_NTZ'2024-03-10 02:30:00'",
}  # fmt: skip
EXPRESSIONS = {
    "int": "{int} + 1|{int} % 3|-{int}|abs({int})|length({text})|year({date})|hour({ts})|CAST({bool} AS INT)"
    "|try_cast({text} AS INT)|CAST({text} AS INT)|hash({float})|hash({any}, {any})|coalesce({int}, 0)"
    "|nullif({int}, 3)|if({bool}, {int}, {int})|plus({int})|{int} div 2|ascii({text})|CAST({dec} AS INT)"
    "|datediff({date}, DATE'2024-01-01')|CAST(monotonically_increasing_id() < 0 AS INT)|CAST(floor(rand(1)) AS INT)"
    "|(SELECT max(k) FROM u)|try_add({int}, {int})|(SELECT CAST(count(*) AS INT) FROM u q WHERE q.k = {int})"
    "|dayofweek({date})|try_mod({int}, {int})|least({int}, {int})",
    "long": "{long} + 0|CAST({int} AS BIGINT)|try_add({long}, {long})|{int} * 2L|try_multiply({long}, {int})"
    "|xxhash64({any})|-{long}|abs({long})|unix_micros({ts})|{long} + {int}|{long} div 3|bigint({dec})"
    "|monotonically_increasing_id() * 0",
    "text": "upper({text})|lower({text})|concat({text}, 'x')|CAST({int} AS STRING)|CAST({float} AS STRING)"
    "|trim({text})|CAST({ts} AS STRING)|CAST({date} AS STRING)|substr({text}, 1, 1)|coalesce({text}, 'none')"
    "|CAST({dec} AS STRING)|concat('', {float})|rpad({text}, 3, ' ')|if({bool}, {text}, NULL)|substr(uuid(), 1, 0)"
    "|loud({text})|date_format({ts}, 'HH')|CAST({bool} AS STRING)|hex({text})|typeof({any})"
    "|regexp_replace({text}, 'a', 'b')|to_json(struct({any} AS one))",
    "ctext": "{text} COLLATE UTF8_LCASE|{text} COLLATE UNICODE_CI|lower({ctext})|concat({ctext}, {ctext})",
    "bool": "{int} = {int}|{float} < -1|{int} > 1|{text} = 'a'|{text} LIKE 'a%'|NOT {bool}|{bool} AND {bool}"
    "|{bool} OR {bool}"
    "|{int} IN (1, 3, NULL)|{any} IS NULL|{text} < {text}|{float} = 0|{float} > 0.1|{dec} > 0"
    "|{date} >= DATE'2024-01-01'|{ctext} = 'A1'|rand(1) < -1|rand(1) >= 0|uuid() = 'x'"
    "|{ts} < TIMESTAMP'2024-03-10 10:30:00Z'|isnan({float})|{int} IN (SELECT k FROM u)"
    "|{int} NOT IN (SELECT j FROM t WHERE j IS NOT NULL)|{text} <=> {text}|{int} BETWEEN 0 AND 3"
    "|EXISTS (SELECT 1 FROM u q WHERE q.k = {int} AND q.k > 1)|{int} > (SELECT min(k) FROM u)"
    "|CAST({float} AS STRING) LIKE '-%'|monotonically_increasing_id() < 0|plus({int}) = 4"
    "|{int} = (SELECT count(*) FROM p WHERE pk = 'a' AND i = 7)|{float} <=> {float}"
    "|EXISTS (SELECT 1 FROM p WHERE i = 3 AND rand(1) < -1)|{long} = 9223372036854775807|CAST({text} AS INT) = 3"
    "|atan2({float}, -1D) < 0",
    "dec": "{dec} + 1|{dec} * 2|CAST({int} AS DECIMAL(10,2))|-{dec}|round({dec}, 2)|try_divide({dec}, 3)"
    "|{dec} + {dec}|CAST({dec} AS DECIMAL(38,18))|abs({dec})|{dec} * {dec}|try_add({dec}, {dec})"
    "|CAST({text} AS DECIMAL(5,2))|{dec} / 7",
    "float": "-{float}|abs({float})|{float} * 2|CAST({int} AS DOUBLE)|{float} + 0|try_divide({int}, 2)"
    "|CAST({text} AS DOUBLE)|nanvl({float}, 1)|if({bool}, {float}, -0.0D)|sqrt({float})|CAST({float} AS FLOAT)"
    "|rand(1) * 0|least(rand(1), 0D)|coalesce({float}, 0)|sign({float})",
    "date": "date_add({date}, 1)|CAST({ts} AS DATE)|last_day({date})|trunc({date}, 'YEAR')|try_cast({text} AS DATE)",
    "ts": "CAST({date} AS TIMESTAMP)|date_trunc('DAY', {ts})|{ts} + INTERVAL 1 HOUR|CAST({ts} AS TIMESTAMP_NTZ)"
    "|from_utc_timestamp({ts}, 'Asia/Kolkata')|CAST({ts} AS TIMESTAMP)",
}  # fmt: skip
TRICKY = {  # of these, what is not evaluated as it stands, or not the same for keys that are equal
    "int": "plus({int})|CAST(floor(rand(1)) AS INT)|(SELECT max(k) FROM u)|hash({float})",
    "text": "CAST({float} AS STRING)|concat('', {float})|loud({text})|substr(uuid(), 1, 0)",
    "bool": "rand(1) < -1|uuid() = 'x'|monotonically_increasing_id() < 0|{int} IN (SELECT k FROM u)"
    "|EXISTS (SELECT 1 FROM u q WHERE q.k = {int} AND q.k > 1)|CAST({float} AS STRING) LIKE '-%'|{ctext} = 'A1'"
    "|{int} > (SELECT min(k) FROM u)|monotonically_increasing_id() >= 0|plus({int}) = 4",
    "float": "-{float}|rand(1) * 0|least(rand(1), 0D)|if({bool}, 0D, -0.0D)",
}
AGGREGATES = {
    "int": "min({int})|max({int})|bit_or({int})|min(year({date}))|any_value(1)",
    "long": "count(*)|count({any})|count(DISTINCT {any})|sum({int})|sum({long})|try_sum({long})|count_if({bool})"
    "|max({long})|count(DISTINCT {any}, {any})|approx_count_distinct({int})|sum(DISTINCT {int})|count(1)"
    "|bit_xor({long})|sum({int} * 2)",
    "text": "min({text})|max({text})|array_join(sort_array(collect_set({text})), ',')|max(CAST({float} AS STRING))",
    "dec": "sum({dec})|avg({dec})|try_sum({dec})|try_avg({dec})|max({dec})|min({dec})|sum(DISTINCT {dec})",
    "float": "avg({int})|min({float}) + 0|max({float}) + 0|percentile({int}, 0.5)|try_avg({int})|median({int})",
    "date": "min({date})|max({date})",
    "ts": "min({ts})|max({ts})",
    "bool": "bool_or({bool})|every({bool})|max({bool})",
}  # fmt: skip
COMMON = (  # what is asked most
    "count(*)", "count({any})", "count(DISTINCT {any})", "sum({int})", "sum({long})", "try_sum({long})", "min({int})",
    "max({int})", "min({text})", "max({text})", "max(CAST({float} AS STRING))", "sum({dec})", "avg({dec})",
    "max({dec})", "avg({int})", "min({date})", "max({ts})", "bool_or({bool})",
)  # fmt: skip
WINDOWS = (
    "count(*) OVER (PARTITION BY {0})|rank() OVER (ORDER BY {0})|dense_rank() OVER (PARTITION BY {0} ORDER BY {1})"
    "|max({1}) OVER (PARTITION BY {0})|count({1}) OVER (ORDER BY {0} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    "|sum(CAST({1} IS NULL AS INT)) OVER ()"
)
JOINS = ("JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "RIGHT JOIN", "FULL JOIN")
_HOLE = re.compile(r"\{(\w+)\}")
SETTINGS = {
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "America/Los_Angeles", "Asia/Kolkata"),
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.adaptive.enabled": ("false", "true"),
    "spark.sql.preserveCharVarcharTypeInfo": ("false", "false", "false", "true"),
    "spark.sql.decimalOperations.allowPrecisionLoss": ("true", "true", "true", "false"),
}


@dataclass(frozen=True)
class Drawn:
    """A statement, and the settings to ask it under."""

    text: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Query:
    """A query that may stand in parentheses, and the kinds of its columns."""

    text: str
    columns: Columns


def drawn(draw: Draw) -> Drawn:
    """A query, and settings."""
    query = _query(draw, draw.of([1, 1, 2, 1, 2, 3]))
    return Drawn(query.text, {name: draw.of(options) for name, options in SETTINGS.items()})


def _query(draw: Draw, depth: int) -> Query:
    shapes = [_plain, *[_grouped] * 6, _distinct, _distinct, _windowed, _limited, _summed, _summed]
    if depth > 1:
        shapes += [_united, _with, _lateral]
    return draw.of(shapes)(draw, depth)


def _source(draw: Draw, depth: int) -> Query:
    """What stands behind FROM, with its conditions, and the columns in sight, behind their aliases."""
    text, columns = _relation(draw, depth)
    if draw.chance(15):
        other, more = _relation(draw, depth - 1)
        both = {*columns.values()} & {*more.values()}
        kind = draw.of([kind for kind in ("int", "text", "date", "float") if kind in both] or ["int"])
        join = draw.of(JOINS)
        on = f"{_column(draw, columns, kind)} = {_column(draw, more, kind)}"
        if draw.chance(25):
            on += f" AND {_value(draw, {**columns, **more}, 'bool', 1)}"
        text = f"{text} {join} {other} ON {on}"
        columns = columns if "SEMI" in join or "ANTI" in join else {**columns, **more}
    conditions = [_value(draw, columns, "bool", draw.of([1, 1, 2])) for _ in range(draw.of([0, 0, 0, 1, 1, 2]))]
    return Query(text + (f" WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""), columns)


def _relation(draw: Draw, depth: int) -> tuple[str, Columns]:
    alias = draw.name("a")
    if depth > 1 or (depth == 1 and draw.chance(15)):
        query = _query(draw, depth - 1)
        return f"({query.text}) {alias}", {f"{alias}.{name}": kind for name, kind in query.columns.items()}
    name = draw.of([*"tttttpppoo", "u", "legacy", "folded", "tried"])
    text, columns = f"{name} {alias}", {f"{alias}.{column}": kind for column, kind in TABLES[name].items()}
    if draw.chance(25):
        kind = draw.of(KINDS[:-1])
        text = f"(SELECT *, {_value(draw, TABLES[name], kind, draw.of([1, 1, 2]))} AS e FROM {name}) {alias}"
        columns = {**columns, f"{alias}.e": kind}
    return text, columns


def _plain(draw: Draw, depth: int) -> Query:
    source = _source(draw, depth)
    items = _items(draw, source.columns)
    return Query(f"SELECT {_listed(items)} FROM {source.text}", _kinds(items))


def _distinct(draw: Draw, depth: int) -> Query:
    source = _source(draw, depth)
    items = [(text, kind) for text, kind in _items(draw, source.columns) if kind != "ctext"] or [("1", "int")]
    return Query(f"SELECT DISTINCT {_listed(items)} FROM {source.text}", _kinds(items))


def _limited(draw: Draw, depth: int) -> Query:
    source = _source(draw, depth)
    items = [item for item in _items(draw, source.columns) if item[1] not in ("ctext", "float")] or [("1", "int")]
    order = ", ".join(f"{place + 1}{draw.of(['', ' DESC NULLS LAST'])}" for place in range(len(items)))
    tail = f"ORDER BY {order} LIMIT {draw.of([1, 3, 50])}{draw.of(['', '', ' OFFSET 2'])}"
    return Query(f"SELECT {_listed(items)} FROM {source.text} {tail}", _kinds(items))


def _windowed(draw: Draw, depth: int) -> Query:
    source = _source(draw, depth)
    items = _items(draw, source.columns)
    keys = [_value(draw, source.columns, draw.of(KINDS[:4]), 1) for _ in range(2)]
    window = draw.of(WINDOWS.split("|")).format(*keys)
    inner = Query(f"SELECT {_listed([*items, (window, 'int')])} FROM {source.text}", _kinds([*items, (window, "int")]))
    if draw.chance(40):
        return Query(f"SELECT * FROM ({inner.text}) WHERE {_value(draw, inner.columns, 'bool', 1)}", inner.columns)
    return inner


def _grouped(draw: Draw, depth: int) -> Query:
    source = _source(draw, depth)
    keys = [_key(draw, source.columns) for _ in range(draw.of([0, 1, 1, 2, 2]))]
    shown = [(text, kind) for text, kind in keys if kind != "ctext" and not draw.chance(30)]
    items = [*shown, *(_aggregate(draw, source.columns) for _ in range(draw.of([1, 1, 1, 2])))]
    text = f"SELECT {_listed(items)} FROM {source.text}"
    if keys:
        listed = ", ".join(key for key, _ in keys)
        sets = f"GROUPING SETS (({listed}), ({keys[0][0]}), ())"
        text += f" GROUP BY {draw.of([listed, listed, listed, f'ROLLUP ({listed})', f'CUBE ({listed})', sets])}"
    if draw.chance(20):
        counted, _ = _aggregate(draw, source.columns, "long")
        text += f" HAVING {counted} {draw.of(['>', '=', '<>'])} {draw.of([1, 0, 3])}"
    return Query(text, _kinds(items))


def _summed(draw: Draw, depth: int) -> Query:
    """What partial aggregates may answer: sums by keys of their index and by partition columns."""
    name = draw.of("tpo")
    keys = {column: kind for column, kind in TABLES[name].items() if column in SUMMED_BY or column[0] == "p"}
    by = list(dict.fromkeys(draw.of([*keys]) for _ in range(draw.of([1, 0, 1, 2]))))
    items = [(key, keys[key]) for key in by]
    for _ in range(draw.of([1, 2, 3])):
        column = draw.of("iwlmnx")
        kind = TABLES[name][column]
        added = {"date": [], "long": ["sum", "try_sum"]}.get(kind, ["sum", "avg", "try_sum", "try_avg"])
        function = draw.of(["min", "max", "count", *added * 2])  # averages of large numbers depend on the order of rows
        result = {"min": kind, "max": kind, "count": "long"}.get(function, "dec" if kind == "dec" else "long")
        result = "float" if function.endswith("avg") and kind != "dec" else result
        form = draw.of(["{0}({1})", "{0}({1}) FILTER (WHERE {2})", "{0}(CASE WHEN {2} THEN {1} END)"])
        items.append((form.format(function, column, _value(draw, keys, "bool", 1)), result))
        if draw.chance(30):
            items.append(("count(*)", "long"))
    text = f"SELECT {_listed(items)} FROM {name}"
    if draw.chance(50):
        text += f" WHERE {_value(draw, keys, 'bool', draw.of([1, 1, 2]))}"
    return Query(text + (f" GROUP BY {', '.join(by)}" if by else ""), _kinds(items))


def _key(draw: Draw, columns: Columns) -> tuple[str, str]:
    kind = _kind(draw, columns) if draw.chance(60) else draw.of(["int", "text", "bool", "float", "ctext"])
    return _value(draw, columns, kind, draw.of([0, 1, 1, 1, 2])), kind


def _united(draw: Draw, depth: int) -> Query:
    first, second = _plain(draw, depth - 1), _source(draw, depth - 1)
    kinds = {name: kind if kind not in ("ctext", "float") else "text" for name, kind in first.columns.items()}
    cast = {name: name if kind == first.columns[name] else f"CAST({name} AS STRING)" for name, kind in kinds.items()}
    left = ", ".join(f"{text} AS {name}" for name, text in cast.items())
    right = _listed([(_value(draw, second.columns, kind, 1), kind) for kind in kinds.values()])
    word = draw.of(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
    return Query(f"SELECT {left} FROM ({first.text}) {word} SELECT {right} FROM {second.text}", kinds)


def _with(draw: Draw, depth: int) -> Query:
    inner, name = _query(draw, depth - 1), draw.name("w")
    one, two = draw.name("a"), draw.name("a")
    tested = _value(draw, {f"{one}.{column}": kind for column, kind in inner.columns.items()}, "bool", 1)
    shared = next(iter(inner.columns))
    again = draw.of([f"{one}", f"{one} LEFT SEMI JOIN {name} {two} ON {one}.{shared} = {two}.{shared}"])
    again = again.replace(one, f"{name} {one}", 1)
    items = ", ".join(f"{one}.{column}" for column in inner.columns)
    return Query(f"WITH {name} AS ({inner.text}) SELECT {items} FROM {again} WHERE {tested}", inner.columns)


def _lateral(draw: Draw, depth: int) -> Query:
    text, columns = _relation(draw, depth - 1)
    alias = draw.name("a")
    name, kinds = draw.of([("t", TABLES["t"]), ("p", TABLES["p"]), ("u", TABLES["u"])])
    inside = {f"{alias}.{column}": kind for column, kind in kinds.items()}
    tested = f"{_column(draw, inside, 'int')} = {_column(draw, columns, 'int')}"
    shown = _aggregate(draw, inside)
    outer = _items(draw, columns)
    items = [*outer, ("side.one", shown[1])]
    inner = f"SELECT {shown[0]} AS one FROM {name} {alias} WHERE {tested}"
    return Query(f"SELECT {_listed(items)} FROM {text}, LATERAL ({inner}) side", _kinds(items))


def _items(draw: Draw, columns: Columns) -> list[tuple[str, str]]:
    """Expressions, and their kinds."""
    kinds = [_kind(draw, columns) for _ in range(draw.of([1, 2, 2, 3]))]
    return [(_value(draw, columns, kind, draw.of([0, 0, 1, 2])), kind) for kind in kinds]


def _aggregate(draw: Draw, columns: Columns, kind: str = "") -> tuple[str, str]:
    kind = kind or draw.of(["long", "long", "long", "int", "dec", "dec", "text", "float", "date", "ts", "bool"])
    common = [text for text in AGGREGATES[kind].split("|") if text in COMMON]
    template = draw.of(AGGREGATES[kind].split("|") if draw.chance(40) or not common else common)
    text = _filled(draw, template, columns, draw.of([0, 0, 1]))
    if draw.chance(15) and text.endswith(")") and not text.startswith("array_join"):
        text += f" FILTER (WHERE {_value(draw, columns, 'bool', 1)})"
    return text, kind


def _value(draw: Draw, columns: Columns, kind: str, depth: int) -> str:
    """An expression of a kind."""
    if depth > 0:
        templates = TRICKY if kind in TRICKY and draw.chance(35) else EXPRESSIONS
        return _filled(draw, draw.of(templates[kind].split("|")), columns, depth - 1)
    if kind == "bool" and kind not in columns.values():
        return f"{draw.of([*columns])} IS NOT NULL"
    return draw.of(LITERALS[kind].split("|")) if draw.chance(8) else _column(draw, columns, kind)


def _kind(draw: Draw, columns: Columns) -> str:
    """A kind, mostly one that there is a column of."""
    return draw.of(KINDS) if draw.chance(20) else draw.of([kind for kind in KINDS if kind in columns.values()])


def _filled(draw: Draw, template: str, columns: Columns, depth: int) -> str:
    def value(hole: re.Match[str]) -> str:
        kind = _kind(draw, columns) if hole[1] == "any" else hole[1]
        found = _value(draw, columns, kind, depth)
        return f"({found})" if " " in found or found.startswith("-") else found

    return _HOLE.sub(value, template)


def _column(draw: Draw, columns: Columns, kind: str) -> str:
    """A column of a kind, or a literal where there is none."""
    names = [name for name, its in columns.items() if its == kind]
    return draw.of(names) if names else draw.of(LITERALS[kind].split("|"))


def _listed(items: list[tuple[str, str]]) -> str:
    return ", ".join(f"{text} AS c{place}" for place, (text, _) in enumerate(items))


def _kinds(items: list[tuple[str, str]]) -> Columns:
    return {f"c{place}": kind for place, (_, kind) in enumerate(items)}
