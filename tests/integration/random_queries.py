"""Random queries over the star schema, drawn from a seed: joins of all kinds, nested and put together."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.integration.star import TABLES

KEYS = {  # what joins with what
    "store_id": ["sales", "refunds", "stores"],
    "item_id": ["sales", "items", "promotions"],
    "sale_id": ["sales", "refunds"],
    "customer_id": ["sales", "customers"],
    "day": ["sales", "refunds", "dates", "promotions"],
    "carrier": ["flights", "carriers"],
}
VALUES = {
    "store_id": "1 3 8 9 12 99", "item_id": "1 2 7 30 58 60", "sale_id": "5 100 1200", "customer_id": "4 17 90 129",
    "channel": "'web' 'store' 'catalog' 'phone' 'none'", "quantity": "1 2 10", "amount": "50.00 500 990.5",
    "returned": "true false", "day": "DATE'2023-01-20' DATE'2024-02-29' '2024-11-11'", "reason": "'late' 'damaged'",
    "refunded": "20 60.5", "year": "2023 2024", "city": "'Boston' 'Fresno' 'Denver'", "state": "'IL' 'MA' 'TX'",
    "category": "'Books' 'Music'", "brand": "'Brand#1' 'Brand#4'", "price": "10.5 60", "segment": "'BUILDING'",
    "month": "1 2 7 12", "weekday": "1 6", "holiday": "true", "percent": "10 40", "carrier": "'UA' 'HA' 'OO'",
    "origin": "'JFK' 'EWR'", "dest": "'ANC' 'ORD' 'HNL'", "dep_time": "600 1200 2300", "distance": "187 4983",
    "tailnum": "'N001' 'N030'", "flight": "17 250", "name": "'Airline HA' 'Customer 003'",
}  # fmt: skip
JOINS = ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]


@dataclass(frozen=True)
class Part:
    """A source in FROM: the text, what it is called, and its columns."""

    text: str
    alias: str
    columns: tuple[str, ...]


def query(rng: random.Random) -> str:
    """A query whose rows do not depend on their order."""
    text = rng.choice([select, select, select, grouped, united, with_cte])(rng)
    return f"SELECT count(*) FROM ({text}) counted" if rng.random() < 0.1 else text


def select(rng: random.Random, depth: int = 0) -> str:
    """SELECT plain columns FROM joins WHERE."""
    text, parts = _from(rng, depth)
    columns = [f"{part.alias}.{rng.choice(part.columns)} AS c{n}" for n, part in enumerate(parts)]
    star = "*" if rng.random() < 0.15 and len(parts) == 1 else ", ".join(columns)
    return f"SELECT {star} FROM {text}{_where(rng, parts, depth)}"


def grouped(rng: random.Random) -> str:
    """SELECT keys and aggregates FROM joins WHERE GROUP BY."""
    text, parts = _from(rng, 1)
    keys = [f"{part.alias}.{rng.choice(part.columns)}" for part in parts[: rng.randint(1, 2)]]
    having = f" HAVING count(*) > {rng.randint(1, 5)}" if rng.random() < 0.3 else ""
    names = ", ".join(f"{key} AS k{n}" for n, key in enumerate(keys))
    last = f"{parts[-1].alias}.{rng.choice(parts[-1].columns)}"
    aggregates = rng.choice(["count(*) AS n", f"count({last}) AS n", f"count(DISTINCT {last}) AS n, max({last}) AS m"])
    return f"SELECT {names}, {aggregates} FROM {text}{_where(rng, parts, 1)} GROUP BY {', '.join(keys)}{having}"


def united(rng: random.Random) -> str:
    """Two queries of one column of one type."""
    word = rng.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL"])
    key = rng.choice(list(KEYS))
    sides = []
    for name in rng.choices(KEYS[key], k=2):
        part = Part(f"{name} x", "x", _columns(name))
        sides.append(f"SELECT x.{key} AS c FROM {part.text}{_where(rng, [part], 1)}")
    return f" {word} ".join(sides)


def with_cte(rng: random.Random) -> str:
    """A common table expression, used once or twice, that may have the name of a table."""
    name = rng.choice(["w", "w", "sales", "stores"])
    inner = Part("sales s", "s", _columns("sales"))
    body = f"SELECT s.sale_id, s.store_id, s.channel AS kind, s.item_id FROM {inner.text}{_where(rng, [inner], 1)}"
    used = Part(f"{name} u", "u", ("sale_id", "store_id", "item_id"))
    second = Part(f"{name} v", "v", used.columns)
    if rng.random() < 0.4:
        joined = f"{used.text} {rng.choice(JOINS[:5])} {second.text} ON u.sale_id = v.sale_id AND v.store_id < 4"
        where = _where(rng, [used, second], 2)
        return f"WITH {name} AS ({body}) SELECT u.sale_id, v.item_id FROM {joined}{where}"
    return f"WITH {name} AS ({body}) SELECT u.sale_id, u.kind FROM {used.text}{_where(rng, [used], 2)}"


def _from(rng: random.Random, depth: int) -> tuple[str, list[Part]]:
    """Joined sources, and those of them that are in sight behind the joins."""
    key = rng.choice(list(KEYS))
    first = _part(rng, rng.choice(KEYS[key]), "a", key, depth)
    text, parts = first.text, [first]
    for alias in "bc"[: rng.choice([0, 0, 1, 1, 2])]:
        last = rng.choice(parts)
        key = rng.choice([key for key in KEYS if key in last.columns] or [""])
        if not key:
            break
        part, kind = _part(rng, rng.choice(KEYS[key]), alias, key, depth), rng.choice(JOINS)
        on = [f"{last.alias}.{key} = {part.alias}.{key}"]
        on += [condition(rng, [*parts, part]) for _ in range(rng.choice([0, 0, 1, 2]))]
        text += f" {kind} {part.text} ON {' AND '.join(rng.sample(on, len(on)))}"
        parts = parts if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else [*parts, part]
    return text, parts


def _part(rng: random.Random, name: str, alias: str, key: str, depth: int) -> Part:
    columns = _columns(name)
    if depth or rng.random() < 0.75:
        return Part(f"{name} {alias}", alias, columns)
    inner = Part(f"{name} i", "i", columns)
    chosen = tuple(dict.fromkeys([key, *rng.sample(columns, min(3, len(columns)))]))
    items = ", ".join(f"i.{column}" for column in chosen)
    tail = rng.choice(["", "", "", f" ORDER BY {', '.join(f'i.{c}' for c in columns)} LIMIT 50"])
    word = rng.choice(["", "", "DISTINCT "])
    if word:
        tail = ""
    return Part(f"(SELECT {word}{items} FROM {inner.text}{_where(rng, [inner], 1)}{tail}) {alias}", alias, chosen)


def _columns(name: str) -> tuple[str, ...]:
    """The columns of a table; without the one that is a date elsewhere and a number here."""
    return tuple(column for column in TABLES[name].columns if (name, column) != ("flights", "day"))


def _where(rng: random.Random, parts: list[Part], depth: int) -> str:
    conditions = [condition(rng, parts) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    if depth < 2 and rng.random() < 0.15:
        conditions.append(_subquery(rng, rng.choice(parts)))
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _subquery(rng: random.Random, part: Part) -> str:
    keys = [key for key in KEYS if key in part.columns]
    if not keys:
        return "true"
    key = rng.choice(keys)
    other = rng.choice(KEYS[key])
    inner = Part(f"{other} z", "z", _columns(other))
    word = rng.choice(["", "NOT "])
    tested = condition(rng, [inner])
    if rng.random() < 0.5:
        return f"{word}EXISTS (SELECT 1 FROM {inner.text} WHERE z.{key} = {part.alias}.{key} AND {tested})"
    return f"{part.alias}.{key} {word}IN (SELECT z.{key} FROM {inner.text} WHERE {tested})"


def condition(rng: random.Random, parts: list[Part], depth: int = 0) -> str:
    """A condition over the columns of some parts."""
    if depth < 2 and rng.random() < 0.25:
        word = rng.choice([" AND ", " OR ", " OR "])
        text = "(" + word.join(condition(rng, parts, depth + 1) for _ in range(2)) + ")"
        return f"NOT {text}" if rng.random() < 0.25 else text
    part = rng.choice(parts)
    name = rng.choice([column for column in part.columns if column in VALUES])
    owners = [one for one in parts if name in one.columns]
    column = name if len(owners) == 1 and rng.random() < 0.4 else f"{part.alias}.{name}"
    values = VALUES[name].split(" ") if "Airline" not in VALUES[name] else ["'Airline HA'", "'Customer 003'"]
    one, two = rng.choice(values), rng.choice(values)
    return rng.choice(
        [
            f"{column} = {one}",
            f"{column} = {one}",
            f"{column} {rng.choice(['<', '>=', '<>', '<=>', '>'])} {one}",
            f"{column} IN ({one}, {two})",
            f"{column} NOT IN ({one}, {two})",
            f"{column} BETWEEN {one} AND {two}",
            f"{column} IS NULL",
            f"{column} IS NOT NULL",
            f"coalesce({column} = {one}, true)",
            f"CASE WHEN {column} = {one} THEN true ELSE {column} IS NULL END",
        ]
    )
