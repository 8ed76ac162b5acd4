"""Random queries over the star schema, drawn from a seed: joins of all kinds, nested and put together.

The rows of each, as a multiset, do not depend on the order in which they are read: LIMIT stands behind an ORDER BY of
all that is selected, windows order by what leaves no choice, and nothing adds up floats.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.integration.random_conditions import Named, condition, value
from tests.spark.catalyst.star import TABLES

Tables = Mapping[str, Mapping[str, str]]
STAR: Tables = {  # without the column that is a date elsewhere and a number here
    name: {column: kind for column, kind in table.columns.items() if (name, column) != ("flights", "day")}
    for name, table in TABLES.items()
}
KEYS = {  # what joins with what
    "store_id": "sales.store_id refunds.store_id stores.store_id oddities.store_id",
    "item_id": "sales.item_id items.item_id promotions.item_id",
    "sale_id": "sales.sale_id refunds.sale_id oddities.sale_id",
    "customer_id": "sales.customer_id customers.customer_id",
    "day": "sales.day refunds.day dates.day promotions.day oddities.day",
    "carrier": "flights.carrier carriers.carrier",
    "year": "refunds.year dates.year flights.year",
    "number": "sales.quantity sales.store_id oddities.small oddities.ratio oddities.exact dates.weekday flights.month "
    "promotions.percent items.price sales.sale_id",
    "text": "stores.state oddities.code oddities.label oddities.kind sales.channel flights.origin airports.faa",
}
JOINS = ["JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "LEFT JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN",
         "FULL JOIN", "FULL OUTER JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "SEMI JOIN", "ANTI JOIN"]  # fmt: skip
FLOATS = ("float", "double")


@dataclass(frozen=True)
class Part:
    """A source in FROM: the text, what it is called, and its columns with their types."""

    text: str
    alias: str
    columns: Mapping[str, str]

    def named(self, rng: random.Random, name: str, *, plain: bool = False) -> Named:
        """A column as it may be written, behind the source's name."""
        spelled = name if plain else rng.choice([name] * 8 + [name.upper(), f"`{name}`", f"`{name.title()}`"])
        alias = self.alias if plain else rng.choice([self.alias] * 6 + [f"`{self.alias}`", self.alias.upper()])
        return Named(f"{alias}.{spelled}", name, self.columns[name])


def query(rng: random.Random, tables: Tables = STAR) -> str:
    """A query."""
    kinds = [*_NESTED, grouped, of_one_table, of_one_table, of_one_table, windowed]
    text = rng.choice(kinds)(rng, tables)
    return f"SELECT count(*) FROM ({text}) counted" if rng.random() < 0.1 else text


def nested(rng: random.Random, tables: Tables = STAR) -> str:
    """A query of several tables or queries."""
    return rng.choice(_NESTED)(rng, tables)


def select(rng: random.Random, tables: Tables, depth: int = 0) -> str:
    """SELECT columns and expressions FROM joins WHERE."""
    text, parts = _from(rng, tables, depth)
    where = _where(rng, tables, parts, depth)
    if rng.random() < 0.15 and len(parts) == 1:
        return f"SELECT {rng.choice(['*', parts[0].alias + '.*'])} FROM {text}{where}"
    chosen = [_expression(rng, tables, part, depth) for part in parts for _ in range(rng.choice([1, 1, 2]))]
    items = ", ".join(f"{one}{rng.choice([' AS', ''])} c{n}" for n, one in enumerate(chosen))
    distinct = "DISTINCT " if rng.random() < 0.12 else ""
    tail = _total(rng, [f"c{n}" for n in range(len(chosen))]) if rng.random() < 0.2 else ""
    return f"SELECT {distinct}{items} FROM {text}{where}{tail}"


def _expression(rng: random.Random, tables: Tables, part: Part, depth: int) -> str:
    column = part.named(rng, rng.choice(list(part.columns)))
    if rng.random() < 0.7:
        return column.text
    if depth == 0 and rng.random() < 0.25:
        return _scalar(rng, tables, part)
    return rng.choice(
        [
            f"CASE WHEN {condition(rng, [column])} THEN 1 WHEN {condition(rng, [column])} THEN 2 ELSE 3 END",
            f"CAST({column.text} AS STRING)",
            f"({condition(rng, [column])})",
            f"coalesce({column.text}, {value(rng, column)})",
            f"if({condition(rng, [column])}, {column.text}, NULL)",
            f"{column.text} IN ({value(rng, column)}, {value(rng, column)})",
        ]
    )


def grouped(rng: random.Random, tables: Tables) -> str:
    """SELECT keys and aggregates FROM joins WHERE GROUP BY."""
    text, parts = _from(rng, tables, 1)
    return _grouping(rng, tables, text, parts)


def of_one_table(rng: random.Random, tables: Tables) -> str:
    """What an index alone may answer: aggregates, DISTINCT, LIMIT 1 and EXISTS over one table."""
    name = rng.choice(list(tables))
    alias = rng.choice([name, "a"])
    part = Part(name if alias == name else f"{name} {alias}", alias, tables[name])
    few = dict(rng.sample(list(part.columns.items()), min(len(part.columns), rng.choice([1, 2, 2, 3]))))
    part = _in_brackets(rng, tables, name, few) if rng.random() < 0.25 else Part(part.text, part.alias, few)
    draw = rng.random()
    if draw < 0.75:
        return _grouping(rng, tables, part.text, [part], one=True)
    where = _where(rng, tables, [part], 2)
    if draw < 0.85:
        items = ", ".join(part.named(rng, column).text for column in few)
        return f"SELECT DISTINCT {items} FROM {part.text}{where}"
    if draw < 0.92:
        return f"SELECT 1 AS one FROM {part.text}{where} LIMIT 1"
    return f"SELECT {rng.choice(['', 'NOT '])}EXISTS (SELECT * FROM {part.text}{where}) AS found"


def _in_brackets(rng: random.Random, tables: Tables, name: str, few: Mapping[str, str]) -> Part:
    """These columns of a table, out of a query in brackets or two, which may leave rows out."""
    text = name
    for alias in rng.choice([["b"], ["b"], ["c", "b"]]):
        inner = Part(f"{text} {alias}", alias, tables[name] if text == name else few)
        items = ", ".join(rng.choice([column, f"{alias}.{column}", f"{column} AS {column}"]) for column in few)
        text = f"(SELECT {rng.choice(['*', items])} FROM {inner.text}{_where(rng, tables, [inner], 2)})"
    return Part(f"{text} a", "a", few)


def _grouping(rng: random.Random, tables: Tables, text: str, parts: Sequence[Part], *, one: bool = False) -> str:
    where = _where(rng, tables, parts, 2 if one else 1)
    columns = [part.named(rng, rng.choice(list(part.columns))) for part in parts for _ in range(2)]
    keys = list(dict.fromkeys(column.text for column in columns))[: rng.choice([0, 1, 1, 2])]
    if keys and rng.random() < 0.15:
        keys[0] = f"({condition(rng, [columns[0]])})"
    aggregates = [_aggregate(rng, parts) for _ in range(rng.choice([1, 1, 2, 3]))]
    names = [f"k{n}" for n in range(len(keys))] + [f"n{n}" for n in range(len(aggregates))]
    items = [f"{one} AS {name}" for one, name in zip([*keys, *aggregates], names, strict=True)]
    by = rng.choice([", ".join(keys), ", ".join(str(n + 1) for n in range(len(keys))), "ALL"]) if keys else ""
    if by not in ("", "ALL") and len(keys) == 2 and rng.random() < 0.1:
        by = rng.choice([f"ROLLUP ({', '.join(keys)})", f"CUBE ({', '.join(keys)})"])
    if keys and rng.random() < 0.1:
        items = [f"{keys[0]} AS k0", *items[len(keys) :]]
        names = [names[0], *names[len(keys) :]]
        by = ", ".join(keys)
    having = ""
    if rng.random() < 0.25:
        having = " HAVING " + rng.choice(
            [f"count(*) > {rng.randint(0, 5)}", f"{_aggregate(rng, parts)} IS NOT NULL", f"{names[-1]} IS NOT NULL",
             "count(*) BETWEEN 1 AND 20"]
        )  # fmt: skip
    tail = _total(rng, names) if rng.random() < 0.25 else ""
    return f"SELECT {', '.join(items)} FROM {text}{where}{f' GROUP BY {by}' if by else ''}{having}{tail}"


def _aggregate(rng: random.Random, parts: Sequence[Part]) -> str:
    part = rng.choice(parts)
    column = part.named(rng, rng.choice(list(part.columns)))
    c = column.text
    choices = ["count(*)", "count(1)", f"count({c})", f"count(DISTINCT {c})", f"min({c})", f"max({c})"]
    if column.family == "number" and column.type not in FLOATS:
        choices += [f"sum({c})", f"avg({c})", f"sum(DISTINCT {c})", f"sum({c} + 1)", f"max({c}) - min({c})"]
    choices.append(f"count(CASE WHEN {condition(rng, [column])} THEN 1 END)")
    chosen = rng.choice(choices)
    plain = chosen.endswith(")") and " - " not in chosen
    return f"{chosen} FILTER (WHERE {condition(rng, [column])})" if plain and rng.random() < 0.12 else chosen


def _total(rng: random.Random, names: Sequence[str]) -> str:
    """Rows by all that is selected, so that those that are cut off are always the same."""
    order = ", ".join(f"{name}{rng.choice(['', '', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST'])}" for name in names)
    offset = f" OFFSET {rng.randint(1, 9)}" if rng.random() < 0.15 else ""
    return f" ORDER BY {order}" + rng.choice(["", f" LIMIT {rng.choice([1, 3, 20])}{offset}"])


def united(rng: random.Random, tables: Tables) -> str:
    """Two or three queries of columns of one type."""
    key = rng.choice(_keys(tables))
    arms = []
    for name, column in rng.choices(_owners(key, tables), k=rng.choice([2, 2, 3])):
        part = Part(f"{name} x", "x", tables[name])
        c = part.named(rng, column).text
        where = _where(rng, tables, [part], 1)
        arms.append(
            rng.choice(
                [
                    f"SELECT {c} AS c FROM {part.text}{where}",
                    f"SELECT {c} AS c FROM {part.text}{where}",
                    f"SELECT DISTINCT {c} AS c FROM {part.text}{where}",
                    f"SELECT {c} AS c FROM {part.text}{where} GROUP BY {c}",
                    f"SELECT max({c}) AS c FROM {part.text}{where}",
                    f"(SELECT {c} AS c FROM {part.text}{where} ORDER BY c LIMIT 7)",
                ]
            )
        )
    text = arms[0]
    for arm in arms[1:]:
        word = rng.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL", "MINUS"])
        text = f"({text}) {word} ({arm})" if rng.random() < 0.3 else f"{text} {word} {arm}"
    draw = rng.random()
    if draw < 0.2:
        return f"{text} ORDER BY c{rng.choice(['', ' DESC'])} LIMIT {rng.choice([1, 5, 30])}"
    if draw < 0.45:
        whole = Part(f"({text}) u", "u", {"c": tables[_owners(key, tables)[0][0]][_owners(key, tables)[0][1]]})
        tested = condition(rng, [Named("u.c", _owners(key, tables)[0][1], whole.columns["c"])])
        return f"SELECT u.c, count(*) AS n FROM {whole.text} WHERE {tested} GROUP BY u.c"
    return text


def with_cte(rng: random.Random, tables: Tables) -> str:
    """A common table expression, used once, twice or three times, that may have the name of a table."""
    name = rng.choice(["w", "w", "sales", "stores"])
    inner = Part("sales s", "s", tables["sales"])
    where = _where(rng, tables, [inner], 1)
    body = f"SELECT s.sale_id, s.store_id, s.channel AS kind, s.item_id FROM {inner.text}{where}"
    columns = {"sale_id": "bigint", "store_id": "int", "item_id": "int"}
    used, second = Part(f"{name} u", "u", columns), Part(f"{name} v", "v", columns)
    head = f"WITH {name} AS ({body})"
    if rng.random() < 0.25:
        where = _where(rng, tables, [Part("w2 s", "s", {"sale_id": "bigint"})], 2)
        first = _where(rng, tables, [Part(name, name, columns)], 2)
        head += f", w2 (sale_id, place) AS (SELECT sale_id, store_id FROM {name}{first})"
        return f"{head} SELECT s.place, u.item_id FROM w2 s JOIN {used.text} ON u.sale_id = s.sale_id{where}"
    draw = rng.random()
    if draw < 0.35:
        tested = condition(rng, [second.named(rng, "store_id")])
        joined = f"{used.text} {rng.choice(JOINS[:10])} {second.text} ON u.sale_id = v.sale_id AND {tested}"
        return f"{head} SELECT u.sale_id, v.item_id FROM {joined}{_where(rng, tables, [used, second], 2)}"
    if draw < 0.55:
        one, two = _where(rng, tables, [used], 2), _where(rng, tables, [second], 2)
        word = rng.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        return f"{head} SELECT u.item_id FROM {used.text}{one} {word} SELECT v.item_id FROM {second.text}{two}"
    if draw < 0.75:
        tested = condition(rng, [used.named(rng, "store_id")])
        inside = f"SELECT v.item_id FROM {second.text}{_where(rng, tables, [second], 2)}"
        member = f"u.item_id {rng.choice(['', 'NOT '])}IN ({inside})"
        return f"{head} SELECT u.sale_id FROM {used.text} WHERE {tested} AND {member}"
    return f"{head} SELECT u.sale_id, u.kind FROM {used.text}{_where(rng, tables, [used], 2)}"


def around(rng: random.Random, tables: Tables) -> str:
    """Conditions on columns that come out of groups, set operations and queries within queries."""
    kinds = [rng.choice(["int", "string", "date", "int"]) for _ in range(rng.choice([1, 2, 2]))]
    inner, origins = _shaped(rng, tables, kinds, 2)
    columns = [Named(f"q.c{n}", origin, kind) for n, (origin, kind) in enumerate(zip(origins, kinds, strict=True))]
    tested = " AND ".join(condition(rng, columns) for _ in range(rng.choice([1, 1, 2])))
    shown = rng.choice(["*", ", ".join(column.text for column in columns), "count(*) AS n"])
    if rng.random() < 0.3:
        return f"WITH q AS ({inner}) SELECT {shown} FROM q WHERE {tested}"
    if rng.random() < 0.2:
        again = condition(rng, columns)
        return f"WITH q AS ({inner}) SELECT {shown} FROM q WHERE {tested} UNION ALL SELECT {shown} FROM q WHERE {again}"
    if rng.random() < 0.25 and kinds[0] == "int":
        other = Part("stores t", "t", tables.get("stores", tables["sales"]))
        text = other.text if "stores" in tables else "sales t"
        join = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        more = f" AND {condition(rng, columns)}" if rng.random() < 0.5 else ""
        return f"SELECT q.c0 FROM ({inner}) q {join} {text} ON q.c0 = t.store_id{more} WHERE {tested}"
    return f"SELECT {shown} FROM ({inner}) q WHERE {tested}"


def _shaped(rng: random.Random, tables: Tables, kinds: Sequence[str], depth: int) -> tuple[str, list[str]]:
    """A query of columns c0, c1, .. of these types, and columns with values like theirs."""
    draw = rng.random() if depth else 1.0
    if draw < 0.3:
        arms = [_shaped(rng, tables, kinds, depth - 1) for _ in range(rng.choice([2, 2, 3]))]
        words = ["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"]
        text = "".join(
            f"{f' {rng.choice(words)} ' if n else ''}{f'({arm})' if rng.random() < 0.5 or ' LIMIT ' in arm else arm}"
            for n, (arm, _) in enumerate(arms)
        )
        return text, arms[0][1]
    names = [f"c{n}" for n in range(len(kinds))]
    if draw < 0.55:
        inner, origins = _shaped(rng, tables, kinds, depth - 1)
        columns = [Named(f"i.{name}", origin, kind) for name, origin, kind in zip(names, origins, kinds, strict=True)]
        where = f" WHERE {condition(rng, columns)}" if rng.random() < 0.5 else ""
        order = list(range(len(kinds)))
        if len(set(kinds)) == 1:
            rng.shuffle(order)
        items = ", ".join(f"i.c{place} AS c{n}" for n, place in enumerate(order))
        return f"SELECT {rng.choice(['*', items, 'DISTINCT ' + items])} FROM ({inner}) i{where}", origins
    text, parts = _from(rng, tables, 1)
    owned = [(part, name) for part in parts for name in part.columns]
    chosen = [[(part, name) for part, name in owned if part.columns[name] == kind] for kind in kinds]
    if not all(chosen):
        part = Part("sales a", "a", tables["sales"])
        text, parts = part.text, [part]
        chosen = [[(part, name) for name in part.columns if part.columns[name] == kind] for kind in kinds]
    picked = [rng.choice(one) for one in chosen]
    origins, plain = [name for _, name in picked], [f"{part.alias}.{name}" for part, name in picked]
    items = ", ".join(f"{column} AS {name}" for column, name in zip(plain, names, strict=True))
    where = _where(rng, tables, parts, 2)
    if rng.random() < 0.3:
        keys = ", ".join(dict.fromkeys(plain))
        having = rng.choice(["", "", " HAVING count(*) > 1", f" HAVING max({plain[0]}) IS NOT NULL"])
        return f"SELECT {items} FROM {text}{where} GROUP BY {keys}{having}", origins
    word = rng.choice(["", "", "", "DISTINCT "])
    tail = f" ORDER BY {', '.join(names)} LIMIT {rng.choice([2, 40])}" if rng.random() < 0.1 else ""
    return f"SELECT {word}{items} FROM {text}{where}{tail}", origins


def windowed(rng: random.Random, tables: Tables) -> str:
    """Window functions, and conditions within and behind."""
    name = rng.choice([name for name in ("sales", "refunds", "flights", "oddities") if name in tables])
    part = Part(f"{name} a", "a", tables[name])
    exact = [column for column, kind in part.columns.items() if kind not in FLOATS]
    by, order, shown = (part.named(rng, rng.choice(exact)).text for _ in range(3))
    function = rng.choice(
        ["rank()", "dense_rank()", "count(*)", f"max({shown})", f"min({shown})", f"count({shown})", "cume_dist()"]
    )
    items = f"{by} AS p, {shown} AS s, {function} OVER (PARTITION BY {by} ORDER BY {order}) AS w"
    text = f"SELECT {items} FROM {part.text}{_where(rng, tables, [part], 1)}"
    if rng.random() < 0.5:
        return text
    column = rng.choice(exact)
    inner = f"SELECT a.{column}, rank() OVER (PARTITION BY {by} ORDER BY a.{column}) AS w FROM {part.text}"
    outer = Part("", "q", {column: part.columns[column], "w": "int"})
    tested = condition(rng, [outer.named(rng, column)])
    return f"SELECT q.{column} FROM ({inner}{_where(rng, tables, [part], 1)}) q WHERE q.w < 4 AND {tested}"


def _keys(tables: Tables) -> list[str]:
    return [key for key in KEYS if _owners(key, tables)]


def _owners(key: str, tables: Tables) -> list[tuple[str, str]]:
    """The (table, column)s that may be equal by a key."""
    pairs = (text.split(".") for text in KEYS[key].split())
    return [(table, column) for table, column in pairs if table in tables]


def _from(rng: random.Random, tables: Tables, depth: int) -> tuple[str, list[Part]]:
    """Joined sources, and those of them that are in sight behind the joins."""
    name, _ = rng.choice(_owners(rng.choice(_keys(tables)), tables))
    first = _part(rng, tables, name, "a", "", depth)
    text, parts = first.text, [first]
    for alias in "bc"[: rng.choice([0, 0, 1, 1, 1, 2])]:
        last = rng.choice(parts)
        links = [
            (column, other, owned)
            for key in KEYS
            for owner, column in _owners(key, tables)
            if column in last.columns and owner in last.text
            for other, owned in _owners(key, tables)
        ]
        if not links:
            break
        key, other, owned = rng.choice(links)
        part, kind = _part(rng, tables, other, alias, owned, depth), rng.choice(JOINS)
        behind = kind.endswith(("SEMI JOIN", "ANTI JOIN"))
        if key == owned and len(parts) == 1 and rng.random() < 0.12:
            text += f" {kind} {part.text} USING ({key})"
        elif rng.random() < 0.06 and not behind:
            text += f" {rng.choice(['CROSS JOIN', ','])} (SELECT 1 AS one) n{alias}"
            continue
        else:
            left, right = last.named(rng, key), part.named(rng, owned)
            equal = [f"{left.text} {rng.choice(['=', '=', '=', '=', '<=>', '=='])} {right.text}"]
            equal += [condition(rng, _seen(rng, [*parts, part])) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
            text += f" {kind} {part.text} ON {' AND '.join(rng.sample(equal, len(equal)))}"
        parts = parts if behind else [*parts, part]
    if not depth and rng.random() < 0.12:  # what stands before a comma is joined by what stands behind it, too
        name, column = rng.choice(_owners("store_id", tables))
        kept = f"SELECT DISTINCT {column} FROM {name} WHERE {column} < 4 OR {column} IS NULL"
        few = Part(f"({kept}) z", "z", {column: tables[name][column]})
        return f"{few.text}, {text}", [few, *parts]
    return text, parts


def _part(rng: random.Random, tables: Tables, name: str, alias: str, key: str, depth: int) -> Part:
    columns = tables[name]
    if depth or rng.random() < 0.75:
        return Part(f"{name} {rng.choice(['', 'AS '])}{alias}", alias, columns)
    inner = Part(f"{name} i", "i", columns)
    chosen = list(dict.fromkeys([*([key] if key else []), *rng.sample(list(columns), min(3, len(columns)))]))
    items = ", ".join(inner.named(rng, column).text + f" AS {column}" for column in chosen)
    tail = rng.choice(["", "", "", _total(rng, [f"i.{c}" for c in columns]), " GROUP BY ALL"])
    word = "" if tail else rng.choice(["", "", "DISTINCT "])
    text = f"SELECT {word}{items} FROM {inner.text}{_where(rng, tables, [inner], 1)}{tail}"
    if rng.random() < 0.15:
        return Part(f"({text}) {alias} ({', '.join(chosen)})", alias, {c: columns[c] for c in chosen})
    return Part(f"({text}) {alias}", alias, {c: columns[c] for c in chosen})


def _seen(rng: random.Random, parts: Sequence[Part]) -> list[Named]:
    """The columns of some parts as a condition may name them, some without their part where that is clear."""
    found = []
    for part in parts:
        for name in rng.sample(list(part.columns), min(4, len(part.columns))):
            clear = sum(name in other.columns for other in parts) == 1 and rng.random() < 0.3
            named = part.named(rng, name)
            found.append(Named(rng.choice([name, name, f"`{name}`"]), name, named.type) if clear else named)
    return found


def _where(rng: random.Random, tables: Tables, parts: Sequence[Part], depth: int) -> str:
    conditions = [condition(rng, _seen(rng, parts)) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
    if depth < 2 and rng.random() < 0.2:
        conditions.append(_subquery(rng, tables, rng.choice(parts)))
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _linked(rng: random.Random, tables: Tables, part: Part) -> tuple[str, Part, str] | None:
    """A column of a part, a table, and its column that may be equal."""
    links = [
        (column, *other)
        for key in KEYS
        for column in {column for _, column in _owners(key, tables)} & set(part.columns)
        for other in _owners(key, tables)
        if key not in ("number", "text")
    ]
    if not links:
        return None
    column, other, owned = rng.choice(sorted(links))
    return column, Part(f"{other} z", "z", tables[other]), owned


def _subquery(rng: random.Random, tables: Tables, part: Part) -> str:
    linked = _linked(rng, tables, part)
    if linked is None:
        return "true"
    column, inner, owned = linked
    outer, own = part.named(rng, column).text, inner.named(rng, owned).text
    word, tested = rng.choice(["", "NOT "]), condition(rng, _seen(rng, [inner]))
    bound, extreme = f"{own} = {part.alias}.{column}", rng.choice(["max", "min"])
    shown = rng.choice(["1", "1", "*", own, "DISTINCT 1", f"{extreme}({own})", "count(*)"])
    end = rng.choice(["", f" GROUP BY {own}", " LIMIT 1"]) if shown in ("1", own) else ""
    few = f"SELECT {own} FROM {inner.text} WHERE {tested}"
    return rng.choice(
        [
            f"{word}EXISTS ({few} {rng.choice(['EXCEPT ALL', 'UNION ALL', 'INTERSECT ALL', 'EXCEPT'])} {few} LIMIT 9)",
            f"{word}EXISTS ({few} UNION ALL {few} LIMIT 9 OFFSET {rng.randint(0, 4)})",
            f"{word}EXISTS ({_hiding(rng, part, column, inner, owned)})",
            f"{word}EXISTS (SELECT {shown} FROM {inner.text} WHERE {bound} AND {tested})",
            f"{word}EXISTS (SELECT {shown} FROM {inner.text} WHERE {tested} AND {bound}{end})",
            f"{word}EXISTS (SELECT {shown} FROM {inner.text} WHERE {tested})",
            f"{outer} {word}IN (SELECT {own} FROM {inner.text} WHERE {tested})",
            f"{outer} {word}IN (SELECT {own} FROM {inner.text} WHERE {tested})",
            f"{outer} {word}IN (SELECT {own} FROM {inner.text} WHERE {tested} GROUP BY {own})",
            f"{outer} {rng.choice(['=', '<', '>='])} (SELECT {extreme}({own}) FROM {inner.text} WHERE {tested})",
            f"{rng.randint(0, 3)} < (SELECT count(*) FROM {inner.text} WHERE {bound} AND {tested})",
            f"({word}EXISTS (SELECT 1 FROM {inner.text} WHERE {bound}) OR {condition(rng, [part.named(rng, column)])})",
        ]
    )


def _hiding(rng: random.Random, part: Part, column: str, inner: Part, owned: str) -> str:
    """A subquery with a table that is out of sight and named as the part outside, which its WHERE means."""
    hidden = Part("", part.alias, inner.columns)
    name, join = inner.text.split()[0], rng.choice(["LEFT SEMI JOIN", "LEFT ANTI JOIN", "SEMI JOIN", "ANTI JOIN"])
    on = f"z.{owned} = {part.alias}.{owned} AND {condition(rng, _seen(rng, [hidden]))}"
    return f"SELECT 1 FROM {inner.text} {join} {name} {part.alias} ON {on} WHERE z.{owned} = {part.alias}.{column}"


def _scalar(rng: random.Random, tables: Tables, part: Part) -> str:
    """A subquery of one value, of all rows or of those that belong to the row outside."""
    linked = _linked(rng, tables, part)
    if linked is None:
        return "NULL"
    column, inner, owned = linked
    own, tested = inner.named(rng, owned).text, condition(rng, _seen(rng, [inner]))
    shown = rng.choice(["count(*)", f"max({own})", f"min(z.{rng.choice(list(inner.columns))})"])
    bound = f" AND {own} = {part.alias}.{column}" if rng.random() < 0.6 else ""
    return f"(SELECT {shown} FROM {inner.text} WHERE {tested}{bound})"


_NESTED: list[Callable[[random.Random, Tables], str]] = [
    select,
    select,
    select,
    grouped,
    united,
    with_cte,
    around,
    around,
]
