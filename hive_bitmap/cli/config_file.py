"""The configuration file of the program: values for options missing on the command line."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from hive_bitmap.errors import suggestion

VARIABLE = "HIVE_BITMAP_CONFIG"
_PROGRAM, _CONF = "hive-bitmap", "conf"
_KEYS = ("warehouse", "master")


@dataclass(frozen=True)
class Config:
    """The values in the file; None for a missing one.

    `conf` maps the names of Spark settings to their values.
    """

    warehouse: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def read() -> Config:
    """Read the configuration file.

    It is the file named by HIVE_BITMAP_CONFIG, else `hive-bitmap/config` in the user's configuration folder
    (XDG_CONFIG_HOME, else ~/.config); if that does not exist, the configuration is empty. Raise UsageError if
    HIVE_BITMAP_CONFIG names a missing file, and for unknown sections, keys and settings.
    """
    named = os.environ.get(VARIABLE)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    path = Path(named) if named else Path(home) / "hive-bitmap" / "config"
    if not path.is_file():
        if named:
            raise click.UsageError(f"{VARIABLE} names {path}, which is not a file: correct or unset it")
        return Config()
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of Spark settings have capital letters
    try:
        parser.read_string(path.read_text(encoding="utf-8"), str(path))
    except (configparser.Error, UnicodeDecodeError) as e:
        raise click.UsageError(f"{path} cannot be read: {' '.join(str(e).split())}") from e
    return _config(path, parser)


def _config(path: Path, parser: configparser.ConfigParser) -> Config:
    for section in parser.sections():
        if section not in (_PROGRAM, _CONF):
            hint = suggestion(section, (_PROGRAM, _CONF))
            raise click.UsageError(f"{path} has section [{section}]; known: [{_PROGRAM}], [{_CONF}]{hint}")
    values = dict(parser[_PROGRAM]) if parser.has_section(_PROGRAM) else {}
    for key in values:
        if key not in _KEYS:
            raise click.UsageError(
                f"{path} has {key} in [{_PROGRAM}]; known: {', '.join(_KEYS)}{suggestion(key, _KEYS)}"
            )
    conf = dict(parser[_CONF]) if parser.has_section(_CONF) else {}
    for name in conf:
        if not name.startswith("spark."):
            raise click.UsageError(f"{path} has {name} in [{_CONF}]: names of Spark settings begin with spark.")
    warehouse = values.get("warehouse")
    return Config(None if warehouse is None else os.path.expanduser(warehouse), values.get("master"), conf)
