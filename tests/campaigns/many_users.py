"""Users of a Thrift Server who at once make, change, rename and drop tables and indexes, their own and others'.

Each lives in a thread of its own. Data change while nobody asks, so that an answer can be compared with plain Spark's;
indexes come and go at any time.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.servers.hiveserver import HiveServer, Refused, run

TABLES = 2  # of a user at most, at a time
WAYS = ("auto", "blocks", "rows", "index only")
SETTINGS = ("SET hive_bitmap.planning_seconds=60",)
KINDS = ("tables", "indexes of own tables", "answers")  # of which each must be done
PATIENCE = 600.0  # seconds
QUERIES = (
    "SELECT count(*) FROM {t} WHERE a = {n}",
    "SELECT a, count(*) FROM {t} GROUP BY a",
    "SELECT * FROM {t} WHERE a IN (1, {n}) AND s = 'x1'",
    "SELECT min(a), max(a), count(DISTINCT s) FROM {t}",
    "SELECT current_user(), count(*) FROM {t} WHERE s = concat('x', length(current_user()) - 2)",
)
# What may be refused, as another user, or a refresh, was there first, or is not trusted.
EXPECTED = re.compile(
    r"is not trusted|was dropped while it was built|already exists|has no index|no index \S+|is not rebuilt"
)


class Data:
    """Who may touch the data: many who ask, or one who changes them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asking, self._changing = 0, False

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._changing)
            self._asking += 1
        try:
            yield
        finally:
            with self._changed:
                self._asking -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def changed(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._changing and not self._asking)
            self._changing = True
        try:
            yield
        finally:
            with self._changed:
                self._changing = False
                self._changed.notify_all()


@dataclass(kw_only=True)
class World:
    """What all users know: the owner of each table, who made each index, by table and name, and what was found."""

    data: Data = field(default_factory=Data)
    owners: dict[str, str] = field(default_factory=dict)
    makers: dict[tuple[str, str], str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def did_each_kind(self) -> bool:
        return all(self.done[kind] for kind in KINDS)

    def forget(self, table: str) -> None:
        self.owners.pop(table, None)
        for key in [key for key in list(self.makers) if key[0] == table]:
            self.makers.pop(key, None)


class User:
    """One user, with one connection after the other, who does something at random until the end."""

    def __init__(self, server: HiveServer, world: World, name: str, seed: int) -> None:
        self._server, self._world, self._name = server, world, name
        self._draw = random.Random(f"{name} {seed}")
        self._connection: Any = None

    def live(self, end: float) -> None:
        """Act until `time.monotonic()` is `end`, and each of KINDS was done. What is refused must be EXPECTED.

        A slow machine has PATIENCE more seconds to do each of KINDS.
        """
        acts = (
            self._make,
            self._insert,
            self._index,
            self._index,
            self._encode,
            self._drop_index,
            self._drop,
            self._rename,
        )
        while time.monotonic() < (end if self._world.did_each_kind() else end + PATIENCE):
            if self._connection is None or self._draw.random() < 0.1:
                self._reconnect()
            act = self._draw.choice([*acts, *[self._ask] * 6])
            try:
                act()
            except Refused as e:
                if EXPECTED.search(str(e)):
                    self._world.done["refused"] += 1
                else:
                    self._world.wrong.append(f"{self._name}: {str(e)[:500]}")
        self._leave()

    def _leave(self) -> None:
        """Go as a client that is killed: Spark's server may hang for minutes when it is asked to close a session."""
        self._connection._transport.close()

    def _reconnect(self) -> None:
        if self._connection is not None:
            self._leave()
        self._connection = self._server.connect(username=self._name)
        self._run(*SETTINGS)

    def _run(self, *statements: str) -> list[tuple[Any, ...]]:
        return [run(self._connection, statement) for statement in statements][-1]

    def _mine(self) -> list[str]:
        return sorted(table for table, owner in list(self._world.owners.items()) if owner == self._name)

    def _make(self) -> None:
        if len(self._mine()) >= TABLES:
            return
        table, kind = f"{self._name}_{next(self._world.numbers)}", self._draw.choice(["PARQUET", "ORC"])
        rows, keys = self._draw.randrange(100, 3000), self._draw.randrange(2, 40)
        with self._world.data.changed():
            self._run(
                f"CREATE TABLE {table} (a int, s string, v bigint) STORED AS {kind}",
                f"INSERT INTO {table} SELECT CAST(id % {keys} AS int), concat('x', id % 3), id FROM range({rows})",
            )
            self._world.owners[table] = self._name
        self._world.done["tables"] += 1

    def _insert(self) -> None:
        for table in self._mine()[:1]:
            how = self._draw.choice(["INTO", "OVERWRITE"])
            with self._world.data.changed():
                rows = f"SELECT CAST(id % 7 AS int), 'y', id FROM range({self._draw.randrange(1, 50)})"
                self._run(f"INSERT {how} {table} {rows}")
            self._world.done["inserts"] += 1

    def _index(self) -> None:
        """Index a table of anybody, and see whose the index is."""
        name, follows = f"i{next(self._world.numbers)}", self._draw.choice(["true", "false"])
        with self._world.data.kept():
            for table in self._draw.sample(sorted(self._world.owners), min(len(self._world.owners), 1)):
                self._run(
                    f"CREATE INDEX {name} ON TABLE {table} ({self._draw.choice('as')}) AS 'BITMAP' "
                    f"IDXPROPERTIES ('auto_refresh' = '{follows}', 'refresh_interval' = '1 second')"
                )
                self._world.makers[table, name] = self._name
                self._see_owner(table, name)
                own = "own" if self._world.owners[table] == self._name else "others'"
                self._world.done[f"indexes of {own} tables"] += 1

    def _see_owner(self, table: str, index: str) -> None:
        described = dict(row[:2] for row in self._run(f"DESCRIBE EXTENDED default__{table}_{index}__"))
        if described["Owner"] != self._world.makers[table, index]:
            self._world.wrong.append(f"index {index} of {self._world.makers[table, index]} is {described['Owner']}'s")

    def _of_mine(self) -> list[tuple[str, str]]:
        """An index on a table of this user, if there is one."""
        found = sorted(key for key in list(self._world.makers) if key[0] in self._mine())
        return self._draw.sample(found, min(len(found), 1))

    def _encode(self) -> None:
        """Have an index written anew in another encoding, by whoever owns the table; it stays its maker's."""
        encoding = self._draw.choice(["gap", "roaring", "ewah"])
        with self._world.data.kept():
            for table, index in self._of_mine():
                self._run(
                    f"ALTER INDEX {index} ON {table} SET IDXPROPERTIES ('encoding' = '{encoding}')",
                    f"ALTER INDEX {index} ON {table} REBUILD",
                )
                self._see_owner(table, index)
                self._world.done["rebuilds"] += 1

    def _drop_index(self) -> None:
        with self._world.data.kept():
            for table, index in self._of_mine():
                self._run(f"DROP INDEX {index} ON {table}")
                self._world.makers.pop((table, index), None)
                self._world.done["drops of indexes"] += 1

    def _drop(self) -> None:
        for table in self._mine()[: self._draw.randrange(2)]:
            with self._world.data.changed():
                self._run(f"DROP TABLE {table}")
                self._world.forget(table)
            self._world.done["drops of tables"] += 1

    def _rename(self) -> None:
        """Rename a table; its indexes come along, under names that nobody looks at here."""
        for table in self._mine()[:1]:
            new = f"{self._name}_{next(self._world.numbers)}"
            with self._world.data.changed():
                self._run(f"ALTER TABLE {table} RENAME TO {new}")
                self._world.forget(table)
                self._world.owners[new] = self._name
            self._world.done["renames"] += 1

    def _ask(self) -> None:
        """Ask something about a table of anybody, and plain Spark in the same session."""
        with self._world.data.kept():
            for table in self._draw.sample(sorted(self._world.owners), min(len(self._world.owners), 1)):
                query = self._draw.choice(QUERIES).format(t=table, n=self._draw.randrange(9))
                way = self._draw.choice(WAYS)
                self._run(
                    f"REFRESH TABLE {table}",  # Spark itself fails on files that another session has overwritten
                    f"SET hive_bitmap.strategy={way}" if way != "auto" else "RESET hive_bitmap.strategy",
                )
                found = self._run(query)
                planned = str(self._run(f"EXPLAIN {query}"))
                used = "by the bitmap index" in planned or "IndexAnswer" in planned
                wanted = self._run("SET hive_bitmap.enabled=false", query)
                self._run("SET hive_bitmap.enabled=true")
                self._world.done["answers"] += 1
                self._world.done["answers by an index"] += used
                if sorted(map(repr, found)) != sorted(map(repr, wanted)):
                    self._world.wrong.append(f"{self._name}, {way}: {query}: {found[:5]} and not {wanted[:5]}")
