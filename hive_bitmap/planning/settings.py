"""The settings of a session that concern queries, such as `SET hive_bitmap.enabled=false`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hive_bitmap.errors import InvalidProperty
from hive_bitmap.explaining.plan import STRATEGIES
from hive_bitmap.planning.planner import DIRECT_STRATEGY

PREFIX = "hive_bitmap."


@dataclass(frozen=True)
class Settings:
    """Whether and how queries use indexes.

    With `engine_reads_only`, only Spark reads base files and nothing is answered from the index alone, so that the row
    filters and masks of a policy engine stay in force. `strategy` is taken wherever it is possible. With `strict`, an
    error of ours in a query is raised instead of leaving the query to Spark.
    """

    enabled: bool = True
    engine_reads_only: bool = False
    strategy: str | None = None
    strict: bool = False

    def strategy_for(self, format: str) -> str | None:
        """The forced strategy for files of a format: our own tasks read `rows` of Parquet, `blocks` of ORC."""
        direct = self.strategy in DIRECT_STRATEGY.values()
        return DIRECT_STRATEGY.get(format) if direct else self.strategy


def read(conf: Mapping[str, str]) -> Settings:
    """Read the settings from those of a session. Raises InvalidProperty for a value that a setting does not take.

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
