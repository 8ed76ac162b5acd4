"""What a session says of indexes: `SET hive_bitmap.enabled=false` and the like, on every kind of session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hive_bitmap.errors import InvalidProperty
from hive_bitmap.explaining.plan import STRATEGIES
from hive_bitmap.planning.planner import DIRECT_STRATEGY

PREFIX = "hive_bitmap."


@dataclass(frozen=True)
class Settings:
    """Off switches: whether indexes are used at all, whether only the engine reads base files, a wanted strategy.

    With `engine_reads_only` no row comes by another way than Spark's reader, and no answer from the index alone: where
    a policy engine filters or masks rows, it keeps doing so. `strategy` is taken wherever it can answer. Where
    `strict`, a failure of ours in a query is raised.
    """

    enabled: bool = True
    engine_reads_only: bool = False
    strategy: str | None = None
    strict: bool = False

    def strategy_for(self, format: str) -> str | None:
        """The wanted strategy over files of a format: `rows` of Parquet are `blocks` of ORC."""
        direct = self.strategy in DIRECT_STRATEGY.values()
        return DIRECT_STRATEGY.get(format) if direct else self.strategy


def read(conf: Mapping[str, str]) -> Settings:
    """The settings among those of a session. Raises InvalidProperty for a value that none of them takes.

    >>> read({"hive_bitmap.strategy": "full_scan", "spark.app.name": "x"}).strategy
    'full scan'
    """
    return Settings(
        _flag(conf, "enabled", True),
        _flag(conf, "engine_reads_only", False),
        _strategy(conf.get(PREFIX + "strategy")),
        _flag(conf, "strict", False),
    )


def _flag(conf: Mapping[str, str], name: str, default: bool) -> bool:
    said = conf.get(PREFIX + name, str(default)).strip().lower()
    if said not in ("true", "false"):
        raise InvalidProperty(f"{PREFIX}{name} is {said!r}; it takes true or false")
    return said == "true"


def _strategy(said: str | None) -> str | None:
    if said is None or not said.strip():
        return None
    strategy = said.strip().lower().replace("_", " ")
    if strategy not in STRATEGIES:
        raise InvalidProperty(f"{PREFIX}strategy is {said!r}; it takes {', '.join(STRATEGIES)}")
    return strategy
