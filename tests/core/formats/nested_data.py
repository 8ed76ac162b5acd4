"""Random nested types and values."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from hive_bitmap.core.nested_types import ArrayOf, MapOf, NestedType, StructOf

LEAVES: dict[str, Callable[[random.Random], Any]] = {
    "boolean": lambda rng: rng.random() < 0.5,
    "tinyint": lambda rng: rng.randint(-128, 127),
    "smallint": lambda rng: rng.randint(-(2**15), 2**15 - 1),
    "int": lambda rng: rng.randint(-(2**31), 2**31 - 1),
    "bigint": lambda rng: rng.randint(-(2**63), 2**63 - 1),
    "float": lambda rng: float(np.float32(rng.choice([0.5, -0.0, 1e30, float("inf")]))),
    "double": lambda rng: rng.choice([0.5, -0.0, 1e300, 1 / 3]),
    "string": lambda rng: rng.choice(["", "a", "é😀", "x" * 50]),
    "binary": lambda rng: rng.choice([b"", b"\xff", b"abc"]),
    "decimal(9,2)": lambda rng: Decimal(rng.randint(-(10**8), 10**8)).scaleb(-2),
    "decimal(38,10)": lambda rng: Decimal(rng.randint(-(10**20), 10**20)).scaleb(-10),
    "date": lambda rng: datetime.date(1900, 1, 1) + datetime.timedelta(rng.randint(0, 90_000)),
    "timestamp": lambda rng: (
        datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)
        + datetime.timedelta(microseconds=rng.randint(0, 10**15))
    ),
    "timestamp_ntz": lambda rng: datetime.datetime(2000, 1, 1) + datetime.timedelta(seconds=rng.randint(0, 10**8)),
}


# Of arrays of bytes, PySpark makes a dictionary in the order of their addresses; of NaN and -0.0 there may be several.
NO_KEYS = ("binary", "float", "double")


def random_type(rng: random.Random, depth: int = 3, *, nested: bool = True) -> NestedType:
    kind = rng.choice(["array", "map", "struct"]) if nested or (depth and rng.random() < 0.4) else "leaf"
    if kind == "array":
        return ArrayOf(random_type(rng, depth - 1, nested=False))
    if kind == "map":
        key = rng.choice([name for name in LEAVES if name not in NO_KEYS])
        return MapOf(key, random_type(rng, depth - 1, nested=False))
    if kind == "struct":
        names = rng.sample(["a", "B", "c_1", "element", "key", "list"], rng.randint(1, 4))
        return StructOf(tuple((name, random_type(rng, depth - 1, nested=False)) for name in names))
    return rng.choice(list(LEAVES))


def random_value(rng: random.Random, type: NestedType, *, null: bool = True) -> Any:
    if null and rng.random() < 0.2:
        return None
    match type:
        case ArrayOf(element):
            return [random_value(rng, element) for _ in range(rng.choice([0, 0, 1, 2, 5]))]
        case MapOf(key, value):  # with duplicate keys
            count = rng.choice([0, 1, 2, 4])
            return [(random_value(rng, key, null=False), random_value(rng, value)) for _ in range(count)]
        case StructOf(fields):
            return {name: random_value(rng, inner) for name, inner in fields}
    return LEAVES[type](rng)


def evolved(rng: random.Random, type: NestedType) -> NestedType:
    """The type as another file has it: fields are missing, in another order, or in another case; some are new."""
    match type:
        case ArrayOf(element):
            return ArrayOf(evolved(rng, element))
        case MapOf(key, value):
            return MapOf(key, evolved(rng, value))
        case StructOf(fields):
            kept = [
                (name.swapcase() if rng.random() < 0.3 else name, evolved(rng, inner))
                for name, inner in fields
                if rng.random() < 0.8
            ]
            kept += [("new", "int")] if rng.random() < 0.5 or not kept else []
            rng.shuffle(kept)
            return StructOf(tuple(kept))
    return type
