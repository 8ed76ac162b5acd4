"""Provide the settings of stores.

The settings come from the Hadoop configuration of the session, are read in the driver, and are sent along with tasks. A
session setting with the prefix PREFIX overrides Hadoop's setting of the same name, for example
`hive_bitmap.stores.fs.s3a.endpoint`. Over Spark Connect, the Hadoop configuration cannot be read, so only settings with
the prefix are used. This package's own settings (OWN) have the same prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property

from hive_bitmap.errors import InvalidProperty

PREFIX = "hive_bitmap.stores."
OF_HADOOP = "spark.hadoop."  # optional prefix of Hadoop's settings in a session
# Prefixes of the settings in a Hadoop configuration that stores may need.
PREFIXES = ("fs.", "dfs.", "hadoop.security.", "hadoop.rpc.", "google.cloud.")
OWN = {  # name: (default, description)
    "parallel": (64, "most requests of a process to stores at the same time"),
    "attempts": (4, "most attempts of a request that fails for a transient reason"),
    "timeout": (30, "seconds to wait for a response of a store"),
    "memory": (384, "most MB of all caches of a process together"),
    "cache_size": (1024, "most MB in the cache folder"),
}
CACHE_FOLDER = "cache_folder"  # local folder for index files of remote stores; without it, only memory caches them
HDFS_CLIENT = "hdfs.client"  # `native`, or `libhdfs`
HDFS_USER = "hdfs.user"  # the driver's user name on a cluster without Kerberos, which executors use too
_HDFS_CLIENTS = ("native", "libhdfs")


@dataclass(frozen=True)
class Options:
    """Settings of stores.

    str() and repr() do not show the values, because some values are secrets.
    """

    items: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Options:
        """Create options from a mapping, without settings that no store uses.

        >>> Options.of({"fs.s3a.secret.key": "hidden", "mapreduce.job.name": "x"})
        Options(1 settings)
        """
        used = {name: value for name, value in values.items() if name.startswith((*PREFIXES, PREFIX))}
        return cls(tuple(sorted(used.items())))

    def __repr__(self) -> str:
        return f"Options({len(self.items)} settings)"

    def __hash__(self) -> int:
        return self._hash

    def get(self, name: str, default: str = "") -> str:
        """Return the value of a setting without blanks around the value.

        A value under PREFIX takes precedence over Hadoop's value. If both values are empty, returns `default`.
        """
        return self._values.get(PREFIX + name, "").strip() or self._values.get(name, "").strip() or default

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean setting of Hadoop.

        Return `default` if the setting is missing or not a boolean.
        """
        return flag(self.get(name), default)

    def number(self, name: str) -> int:
        """Return a setting of OWN; raise InvalidProperty if it is not a positive integer."""
        value = self._values.get(PREFIX + name, str(OWN[name][0])).strip()
        if not value.isdigit() or not int(value):
            raise InvalidProperty(f"{PREFIX}{name} is {value!r}; it takes a positive number ({OWN[name][1]})")
        return int(value)

    @property
    def cache_folder(self) -> str:
        """The local folder in which index files are cached.

        The folder is "" if index files are not cached on disk.
        """
        return self._values.get(PREFIX + CACHE_FOLDER, "").strip()

    @property
    def hdfs_client(self) -> str:
        """The client that reads HDFS, `native` or `libhdfs`.

        Raises InvalidProperty for any other value.
        """
        value = self._values.get(PREFIX + HDFS_CLIENT, _HDFS_CLIENTS[0]).strip().lower()
        if value not in _HDFS_CLIENTS:
            raise InvalidProperty(f"{PREFIX}{HDFS_CLIENT} is {value!r}; it takes {' or '.join(_HDFS_CLIENTS)}")
        return value

    def with_prefixes(self, *prefixes: str) -> dict[str, str]:
        """Return the settings whose names begin with one of `prefixes`.

        The result has the values by name. Names of session settings are compared and returned without PREFIX.
        """
        names = {name.removeprefix(PREFIX) for name, _ in self.items}
        return {name: self.get(name) for name in sorted(names) if name.startswith(prefixes)}

    @cached_property
    def _values(self) -> dict[str, str]:
        return dict(self.items)

    @cached_property
    def _hash(self) -> int:
        return hash(self.items)

    def __getstate__(self) -> dict[str, object]:
        return {"items": self.items}  # without the cached hash, since hashes of strings differ between processes


def memory_bytes(settings: Mapping[str, str]) -> int:
    """Return the memory limit of all caches together, in bytes.

    `settings` are the settings of a session. Raises InvalidProperty if the limit is not a positive integer.
    """
    name = f"{PREFIX}memory"
    return Options.of({name: settings[name]} if name in settings else {}).number("memory") << 20


def flag(value: str, default: bool) -> bool:
    """Parse a boolean as Hadoop does.

    Any value except true and false stands for `default`.
    """
    return {"true": True, "false": False}.get(value.lower(), default)


Source = Callable[[], Options]


@dataclass
class _LatestSource:
    """The latest source of options of this process, for threads without their own source.

    `needed` becomes True when options are first requested. From then on, the options are sent to tasks, too.
    """

    source: Source
    needed: bool = False


_latest = _LatestSource(Options)
_source: ContextVar[Source | None] = ContextVar("hive_bitmap_stores", default=None)


def use(source: Source) -> None:
    """Set the source of options for this context.

    `source` is called whenever a store needs options. Threads without their own source use the source that was set
    last.
    """
    _latest.source = source
    _source.set(source)


def current() -> Options:
    """Return the options of this context or of the latest source.

    The latest source of this process is used if the context has no source. Without any source, the options have no
    settings.
    """
    _latest.needed = True
    return (_source.get() or _latest.source)()


def needed() -> Options:
    """Return the options to send to tasks.

    The result has no settings if this process has accessed only local files so far.
    """
    return current() if _latest.needed else Options()


@contextmanager
def using(options: Options) -> Iterator[None]:
    """Use these options inside the `with` block."""
    token = _source.set(lambda: options)
    try:
        yield
    finally:
        _source.reset(token)
