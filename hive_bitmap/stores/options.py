"""How stores are reached: what the session's Hadoop configuration says of them, read in the driver, sent with tasks.

A store asks for its settings by the names that Hadoop has for them. Where no JVM is at hand (Spark Connect), settings
of the session say the same under PREFIX: `hive_bitmap.stores.fs.s3a.endpoint`. There, too, is what is ours alone (OWN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property

from hive_bitmap.errors import InvalidProperty

PREFIX = "hive_bitmap.stores."
# What of a Hadoop configuration concerns the clients of stores, without what follows.
PREFIXES = ("fs.", "dfs.", "hadoop.security.", "hadoop.rpc.", "google.cloud.")
OWN = {  # name: its default, and what it is
    "parallel": (64, "requests of a process that wait for a store at the same time"),
    "attempts": (4, "how often a request is made that fails for a reason that may pass"),
    "timeout": (30, "seconds until a store that says nothing has failed"),
    "memory": (128, "MB of index files of stores that are kept in memory"),
    "cache_size": (1024, "MB of them that are kept in the cache folder"),
}
CACHE_FOLDER = "cache_folder"  # a local folder in which index files of stores are kept; none unless it is named
HDFS_CLIENT = "hdfs.client"  # `native`, or `libhdfs`
HDFS_USER = "hdfs.user"  # who we are to a cluster without Kerberos: whoever runs the driver, on the executors too
_HDFS_CLIENTS = ("native", "libhdfs")


@dataclass(frozen=True)
class Options:
    """Settings by their names, values that are secrets among them: neither str() nor repr() shows any."""

    items: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Options:
        """Those of a mapping; names that concern no store are left out.

        >>> Options.of({"fs.s3a.secret.key": "hidden", "mapreduce.job.name": "x"})
        Options(1 settings)
        """
        kept = {name: value for name, value in values.items() if name.startswith((*PREFIXES, PREFIX))}
        return cls(tuple(sorted(kept.items())))

    def __repr__(self) -> str:
        return f"Options({len(self.items)} settings)"

    def __hash__(self) -> int:
        return self._hash

    def get(self, name: str, default: str = "") -> str:
        """What is said under PREFIX, else by Hadoop; blanks around it mean nothing."""
        said = self._values.get(PREFIX + name, "").strip() or self._values.get(name, "").strip()
        return said or default

    def flag(self, name: str, default: bool) -> bool:
        """A setting of Hadoop that is true or false."""
        return flag(self.get(name), default)

    def number(self, name: str) -> int:
        """One of OWN. Raises InvalidProperty for what is no positive number."""
        said = self._values.get(PREFIX + name, str(OWN[name][0])).strip()
        if not said.isdigit() or not int(said):
            raise InvalidProperty(f"{PREFIX}{name} is {said!r}; it takes a positive number ({OWN[name][1]})")
        return int(said)

    @property
    def cache_folder(self) -> str:
        """The local folder in which index files are kept; "" for none."""
        return self._values.get(PREFIX + CACHE_FOLDER, "").strip()

    @property
    def hdfs_client(self) -> str:
        """Which client reads HDFS. Raises InvalidProperty for an unknown one."""
        said = self._values.get(PREFIX + HDFS_CLIENT, _HDFS_CLIENTS[0]).strip().lower()
        if said not in _HDFS_CLIENTS:
            raise InvalidProperty(f"{PREFIX}{HDFS_CLIENT} is {said!r}; it takes {' or '.join(_HDFS_CLIENTS)}")
        return said

    def beginning(self, *prefixes: str) -> dict[str, str]:
        """All settings whose names begin so."""
        names = {name.removeprefix(PREFIX) for name, _ in self.items}
        return {name: self.get(name) for name in sorted(names) if name.startswith(prefixes)}

    @cached_property
    def _values(self) -> dict[str, str]:
        return dict(self.items)

    @cached_property
    def _hash(self) -> int:
        return hash(self.items)

    def __getstate__(self) -> dict[str, object]:
        return {"items": self.items}  # hashes of strings differ from process to process


def flag(said: str, default: bool) -> bool:
    """What is said, as Hadoop reads it: anything but true and false is the default."""
    return {"true": True, "false": False}.get(said.lower(), default)


Source = Callable[[], Options]


@dataclass
class _Latest:
    """The source of this process, for threads that have none of their own, and whether any store has needed one."""

    source: Source
    needed: bool = False


_latest = _Latest(Options)
_source: ContextVar[Source | None] = ContextVar("hive_bitmap_stores", default=None)


def use(source: Source) -> None:
    """Take options from this source from now on, in this context; it is asked when the first store needs them."""
    _latest.source = source
    _source.set(source)


def current() -> Options:
    """The options of this context, else those that this process was given last, else none."""
    _latest.needed = True
    return (_source.get() or _latest.source)()


def needed() -> Options:
    """The same, for tasks to have: none as long as all that this process has looked at was local."""
    return current() if _latest.needed else Options()


@contextmanager
def using(options: Options) -> Iterator[None]:
    """These options inside the block."""
    token = _source.set(lambda: options)
    try:
        yield
    finally:
        _source.reset(token)
