"""Whether counting through the index may take longer than Spark takes to read the columns: never slower.

Sizes settle it where the index is small. Else the keys that match are looked up, without their bitmaps, and say how
many bytes of bitmaps would be decoded. Seconds, measured on one core of a small machine; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_bitmap.query.candidates import Lookup
from hive_bitmap.query.keys import Answers
from hive_bitmap.query.nodes import columns_of
from hive_bitmap.query.planner import CLEARLY_CHEAPER
from hive_bitmap.query.select import matching_share
from hive_bitmap.query.units import Part


@dataclass(frozen=True)
class CountPrices:
    """Of Spark: starting, and a value read, compared and grouped. Of the index: a stored byte of keys, of bitmaps."""

    spark_start: float = 0.10
    spark_value: float = 5.0e-8
    key_byte: float = 4.0e-9
    bitmap_byte: float = 2.5e-8


def over_budget(
    lookups: Sequence[Lookup], answers: Answers, keys: Sequence[str], cores: int, prices: CountPrices = CountPrices()
) -> str:
    """Why Spark is quicker at counting these, by lower-case keys in the files; empty where it is not."""
    tested = {column.lower() for lookup in lookups for column in columns_of(lookup.predicate)}
    rows = sum(int(lookup.unit.rows.sum()) for lookup in lookups)
    spark = prices.spark_start + rows * len(tested.union(keys)) * prices.spark_value / cores
    most = sum(_seconds(lookup, keys, prices, dict.fromkeys(tested, 1.0)) for lookup in lookups)
    if most <= CLEARLY_CHEAPER * spark:
        return ""
    likely = 0.0
    for lookup in lookups:
        shares = {column: matching_share(lookup.unit, lookup.predicate, answers, column) for column in tested}
        likely += _seconds(lookup, keys, prices, shares)
        if likely > CLEARLY_CHEAPER * spark:
            return f"its {len(tested.union(keys))} columns are read in less time than the bitmaps take to be decoded"
    return ""


def _seconds(lookup: Lookup, keys: Sequence[str], prices: CountPrices, shares: dict[str, float]) -> float:
    """What counting takes, if these shares of the bitmaps of each tested column are decoded."""
    parts = lookup.unit.parts
    tested = [column.lower() for column in columns_of(lookup.predicate)]
    used = {parts[column].index: parts[column] for column in (*keys, *tested) if column in parts}
    seconds = sum(_bytes(part) for part in used.values()) * prices.key_byte
    if len({parts[key].index for key in keys if key in parts}.union(used)) > 1 or (not keys and len(tested) > 1):
        decoded = {parts[key].index: _bytes(parts[key]) * 1.0 for key in keys if key in parts}
        for column in tested:
            if column in parts and parts[column].index not in decoded:
                decoded[parts[column].index] = _bytes(parts[column]) * shares[column]
        seconds += sum(decoded.values()) * prices.bitmap_byte
    return seconds


def _bytes(part: Part) -> int:
    return sum(size for _, size in part.shards)
