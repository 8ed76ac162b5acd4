"""Read the settings of a session for queries, such as `SET hive_bitmap.enabled=false`.

`settings.json` has the names, kinds and defaults of the settings. The file also has the settings of Hadoop that
determine what readers see. The jar contains this file too, for the Java half.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from hive_bitmap.core.planning.strategy import STRATEGIES, Strategy
from hive_bitmap.errors import InvalidProperty, suggestion

PREFIX = "hive_bitmap."
STRATEGY = f"{PREFIX}strategy"
_RESOURCE = json.loads((files("hive_bitmap.core.planning") / "settings.json").read_text())
_DEFAULTS: dict[str, str] = {name: setting["default"] for name, setting in _RESOURCE["settings"].items()}
NAMES = tuple(_DEFAULTS)  # further settings begin with `stores.` and end with a name of Hadoop
NAMES_OF_SERVERS: tuple[str, ...] = tuple(_RESOURCE["of_servers"])
OF_READERS: tuple[str, ...] = tuple(_RESOURCE["of_readers"])  # Hadoop's, which may be set outside the session
RPC_SHARE = 2  # the rows of an answer take at most half of the largest message that Spark sends to a task
RPC_MEGABYTES = 128  # default of spark.rpc.message.maxSize
_UNITS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Whether and how queries use indexes.

    With `engine_reads_only`, only Spark reads base files, and no query is answered from the index alone. So the row
    filters and masks of a policy engine stay in force. `strategy` is used wherever it is possible; None lets the
    planner choose by cost. With `strict`, an error of this package fails the query. Without `strict`, Spark answers the
    query after such an error. An answer from the index alone takes at most `answer_bytes` of the driver's memory for
    its keys. If the selected rows take at most about `driver_read_bytes`, the process that planned the query reads the
    rows, without a Spark job; 0 switches such reads off. A query waits at most `planning_seconds` for its plan. With
    `learn_prices`, the planner's prices follow the times that queries took. Without `auto_refresh`, neither writes nor
    queries of the session refresh indexes.
    """

    enabled: bool
    auto_refresh: bool
    engine_reads_only: bool
    strategy: Strategy | None
    strict: bool
    learn_prices: bool
    answer_bytes: int
    driver_read_bytes: int
    planning_seconds: float


def read(conf: Mapping[str, str]) -> Settings:
    """Read the settings of this package from the settings of a session.

    Raises InvalidProperty for an invalid value. Only an invalid `planning_seconds` is replaced by its default instead.

    >>> read({"hive_bitmap.strategy": "full_scan", "spark.app.name": "x"}).strategy
    <Strategy.FULL_SCAN: 'full scan'>
    """
    return Settings(
        enabled=_flag(conf, "enabled"),
        auto_refresh=_flag(conf, "auto_refresh"),
        engine_reads_only=_flag(conf, "engine_reads_only"),
        strategy=_strategy(conf.get(STRATEGY)),
        strict=_flag(conf, "strict"),
        learn_prices=_flag(conf, "learn_prices"),
        answer_bytes=_bytes_sent(conf, "answer_bytes"),
        driver_read_bytes=_bytes_sent(conf, "driver_read_bytes"),
        planning_seconds=_seconds(conf, "planning_seconds"),
    )


def problems(conf: Mapping[str, str]) -> list[str]:
    """Return a sentence for each invalid setting.

    `conf` maps the names of settings to their values. A setting is invalid if `read` raises an error for its value. A
    setting is also invalid if its name begins with `hive_bitmap.` but is unknown; names that begin with
    `hive_bitmap.stores.` are not checked. Names may have the prefix `spark.`, as in the configuration of an
    application.

    >>> problems({"hive_bitmap.enbled": "false", "spark.hive_bitmap.strategy": "blocks"})
    ["hive_bitmap has no setting hive_bitmap.enbled; did you mean 'hive_bitmap.enabled'?"]
    """
    named = {name.removeprefix("spark."): name for name in sorted(conf)}
    ours = {name: spelled for name, spelled in named.items() if name.startswith(PREFIX)}
    names = [PREFIX + name for name in (*NAMES, *NAMES_OF_SERVERS)]
    sentences = [
        f"hive_bitmap has no setting {full}{suggestion(full, [full.removesuffix(name) + each for each in names])}"
        for name, full in ours.items()
        if name not in names and not name.startswith(f"{PREFIX}stores.")
    ]
    for name, spelled in ours.items():
        try:
            read({name: conf[spelled]})
        except InvalidProperty as e:
            sentences.append(str(e))
    return sentences


def _flag(conf: Mapping[str, str], name: str) -> bool:
    text = conf.get(PREFIX + name, _DEFAULTS[name]).strip().lower()
    if text not in ("true", "false"):
        raise InvalidProperty(f"{PREFIX}{name} is {text!r}; it takes true or false")
    return text == "true"


def _bytes_sent(conf: Mapping[str, str], name: str) -> int:
    """Return the value of a session's setting `name`, in bytes.

    The value is limited to 1 / RPC_SHARE of the largest message that Spark sends to a task.
    """
    text = conf.get(PREFIX + name, _DEFAULTS[name]).strip().lower()
    match = re.fullmatch(r"(\d{1,18})\s*([kmg]?b?)", text)
    if match is None:
        raise InvalidProperty(f"{PREFIX}{name} is {text!r}; it takes bytes, such as 16777216 or 16m")
    message = conf.get("spark.rpc.message.maxSize", "").strip()
    megabytes = int(message) if message.isdigit() else RPC_MEGABYTES
    return min(int(match[1]) << _UNITS[match[2]], (megabytes << 20) // RPC_SHARE)


def _seconds(conf: Mapping[str, str], name: str) -> float:
    """Return the value of a session's setting `name`, in seconds.

    If the setting has an invalid text, return the default, as the JVM does.
    """
    try:
        return float(conf.get(PREFIX + name, _DEFAULTS[name]))
    except ValueError:
        return float(_DEFAULTS[name])


def _strategy(text: str | None) -> Strategy | None:
    if text is None or not text.strip():
        return None
    strategy = text.strip().lower().replace("_", " ")
    if strategy not in STRATEGIES:
        meant = suggestion(strategy, STRATEGIES)
        raise InvalidProperty(f"{STRATEGY} is {text!r}; it takes {', '.join(STRATEGIES)}{meant}")
    return Strategy(strategy)


ANSWER_BYTES, DRIVER_READ_BYTES = read({}).answer_bytes, read({}).driver_read_bytes  # the defaults
