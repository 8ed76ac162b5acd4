"""A program whose acts on an index are killed: `kills` starts it again and again, in one warehouse.

Each run first checks what the last one left, then does random acts until it is killed. It prints lines of JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import hive_bitmap
from hive_bitmap.core import stores
from hive_bitmap.core.index import generation, generation_names, roots
from hive_bitmap.core.index.generation import State
from hive_bitmap.core.stores import local_path
from hive_bitmap.spark.metastore import session_settings
from hive_bitmap.spark.registry import catalog
from tests.asking import answer, by_spark, difference, under
from tests.campaigns.killing import Killing

if TYPE_CHECKING:
    pass

QUERIES = (
    "SELECT count(*) FROM d.t WHERE k = 3",
    "SELECT k, p, count(*) FROM d.t GROUP BY k, p",
    "SELECT id, p FROM d.t WHERE k = 4 AND id % 3 = 0",
    "SELECT count(DISTINCT s), max(k) FROM d.t WHERE p = 'b'",
)
STRATEGIES = ("", "index only", "rows", "blocks")
CONF = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.hadoop.hive.warehouse.subdir.inherit.perms": "false",
}


class Victim:
    """A table with an index on which acts are killed, a neighbour index, and files of others in their folders."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.home, self.rng = given["home"], random.Random(f"{given['seed']} {given['run']}")
        self.root, self.neighbour, self.base = (f"{self.home}/{name}" for name in ("root", "neighbour", "base"))
        self.notes = Path(given["folder"]) / "notes.json"  # what the next run must know
        self.spark = hive_bitmap.session(
            f"{given['folder']}/warehouse", master="local[2]", conf={**CONF, **given["conf"]}
        )
        session_settings.use_stores(self.spark)
        self.killing = Killing(given["ways"], self.rng, self.spark, Path(given["folder"]) / "trace")
        self.format = random.Random(given["seed"]).choice(["PARQUET", "PARQUET", "ORC", "TEXTFILE"])

    def prepare(self) -> None:
        """Make the tables and the indexes, and do each act once, to know how long it takes."""
        sql = self.spark.sql
        sql(f"CREATE DATABASE d LOCATION '{self.home}/d'")
        sql(
            "CREATE EXTERNAL TABLE d.t (k int, s string, id bigint) PARTITIONED BY (p string)"
            f" STORED AS {self.format} LOCATION '{self.base}'"
        )
        for p in "ab":
            self.insert(p)
        hive_bitmap.build(self.spark, "d.t", ["id"], name="j", location=self.neighbour)
        stores.make_folder(self.root)
        with stores.open_output(f"{self.root}/of somebody else") as sink:
            sink.write(b"must stay")
        hive_bitmap.build(self.spark, "d.t", ["k"], name="i", location=self.root)
        self.killing.measures = {}
        for act in ACTS:
            self.killing.measure(act.__name__, lambda act=act: act(self))
        self.note()

    def insert(self, p: str | None = None) -> None:
        first, p = self.rng.randrange(1000), p or self.rng.choice("abc")
        columns = "IF(id % 11 = 0, NULL, CAST(id % 7 AS int)), concat('x', id % 5), id"
        self.spark.sql(
            f"INSERT INTO d.t PARTITION (p = '{p}') SELECT {columns} FROM range({first}, {first + 60}, 1, 1)"
        )

    def note(self) -> None:
        content = {"measures": self.killing.measures, "others": self.others()}
        self.notes.write_text(json.dumps(content))

    def others(self) -> dict[str, int]:
        """Checksums of all files that are not the index's."""
        found = {path: checksum(path) for folder in (self.base, self.neighbour) for path in below(folder)}
        ours = (f"{self.root}/{roots.MARKER}", f"{self.root}/empty/_empty")
        for path in below(self.root):
            if "/generation-" not in path and not path.startswith(ours):
                found[path] = checksum(path)
        return found

    # After a kill

    def check(self) -> None:
        """What is there is right and can be repaired; nothing else was touched."""
        noted = json.loads(self.notes.read_text())
        self.killing.measures = noted["measures"]
        changed = noted["others"].items() ^ self.others().items()
        require(not changed, f"touched: {sorted(changed)[:4]}")
        self.require_right()
        [*_] = hive_bitmap.show(self.spark, "d.t")
        if self.exists():
            hive_bitmap.rebuild(self.spark, "d.t", ["i"])
        self.require_right()
        self.require_clean()
        if not self.exists() or self.rng.random() < 0.3:
            hive_bitmap.drop(self.spark, "d.t", "i", if_exists=True)
            self.age(generation.all_below(self.root))
            hive_bitmap.clean(self.spark, "d.t", location=self.root, grace_seconds=0)
            left = [path for path in below(self.root) if path not in noted["others"]]
            require(not left, f"left after a drop: {left[:4]}")
            self.build()
        self.require_right()
        [one] = [one for one in hive_bitmap.show(self.spark, "d.t") if one.definition.name == "i"]
        require(not one.problem and not one.stale and not one.unindexed, f"after a rebuild: {one.problem or one}")
        problems = [problem for report in hive_bitmap.verify(self.spark, "d.t") for problem in report.problems]
        require(not problems, f"verify: {problems[:2]}")
        changed = noted["others"].items() ^ self.others().items()
        require(not changed, f"touched by a repair: {sorted(changed)[:4]}")

    def exists(self) -> bool:
        return any(one.definition.name == "i" for one in hive_bitmap.show(self.spark, "d.t"))

    def require_right(self) -> None:
        for query in QUERIES:
            wanted = by_spark(self.spark, query)
            for strategy in ("", self.rng.choice(STRATEGIES)):
                with under(self.spark, {"hive_bitmap.strategy": strategy, "hive_bitmap.planning_seconds": "60"}):
                    wrong = difference(answer(self.spark.sql(query)), wanted)
                require(not wrong, f"{query} by {strategy or 'default'}: {wrong}")

    def require_clean(self) -> None:
        """After a clean without grace, only generations that are published are left, and what is not ours."""
        self.spark.catalog.setCurrentDatabase("d")
        hive_bitmap.clean(self.spark, "d.t", location=None if self.exists() else self.root, grace_seconds=0)
        _, indexes = catalog.table_and_indexes(self.spark, "d.t")
        mine = [index for index in indexes if index.definition.name == "i"]
        live = {folder for index in mine for folder in catalog.segments(self.spark, index)}
        self.age(path for path in generation.all_below(self.root) if path not in live)
        hive_bitmap.clean(self.spark, "d.t", location=None if self.exists() else self.root, grace_seconds=0)
        left = [path for path in generation.all_below(self.root) if path not in live and not waits_a_day(path)]
        require(not left, f"left by clean: {left}, of {[generation.usage(path) for path in left]}")
        tables = [row.tableName for row in self.spark.sql("SHOW TABLES IN d").collect()]
        known = {"t", *(index.table.name for index in indexes)}
        require(set(tables) == known, f"tables {tables} instead of {sorted(known)}")

    def age(self, folders: Iterable[str]) -> None:
        """Make it a day later for folders whose build was killed before it had marked them: their name has the time."""
        for folder in folders:
            require(not list(data_of(folder)), f"left by clean: {folder}, {generation.usage(folder)}")
            if folder.startswith("file:"):
                old = Path(local_path(folder))
                old.rename(old.with_name(f"generation-20200101T000000-{generation_names.build_token(folder)}"))

    # Acts

    def build(self) -> None:
        hive_bitmap.drop(self.spark, "d.t", "i", if_exists=True)
        hive_bitmap.build(self.spark, "d.t", ["k"], name="i", location=self.root)

    def rebuild(self) -> None:
        hive_bitmap.rebuild(self.spark, "d.t", ["i"], compact=self.rng.random() < 0.3)

    def refresh(self) -> None:
        hive_bitmap.refresh(self.spark, "d.t", ["i"])

    def rebuild_all(self) -> None:
        hive_bitmap.rebuild(self.spark, "d.t", ["i"], full=True)

    def reencode(self) -> None:
        """Another encoding: the index table is replaced by another one."""
        encoding = self.rng.choice(["roaring", "plain", "ewah", "gap"])
        hive_bitmap.set_properties(self.spark, "d.t", "i", {"encoding": encoding})
        hive_bitmap.rebuild(self.spark, "d.t", ["i"], full=True)

    def clean(self) -> None:
        hive_bitmap.clean(self.spark, "d.t", grace_seconds=0)

    def drop(self) -> None:
        hive_bitmap.drop(self.spark, "d.t", "i", if_exists=True)

    def act(self) -> str:
        """One act that may be killed; what it needs is done before."""
        act = self.rng.choice(ACTS)
        if not self.exists():
            self.build()
        if act.__name__ in ("rebuild", "refresh"):
            self.insert()
        elif act.__name__ == "clean":
            hive_bitmap.rebuild(self.spark, "d.t", ["i"], full=True)
        self.note()
        tell(act=act.__name__)
        self.killing.during(act.__name__, lambda: act(self))
        return act.__name__


ACTS: tuple[Callable[[Victim], None], ...] = (
    Victim.rebuild_all,
    Victim.clean,
    Victim.rebuild,
    Victim.refresh,
    Victim.reencode,
    Victim.drop,
    Victim.build,
)


def waits_a_day(folder: str) -> bool:
    """Whether a folder is of a build that was killed before it had marked it, in a store where `age` cannot help."""
    usage = generation.usage(folder)
    return not folder.startswith("file:") and usage.state is State.BUILDING and usage.definition is None


def below(folder: str) -> Iterator[str]:
    """All files in a folder, at any depth."""
    try:
        found = stores.listing(folder)
    except FileNotFoundError:
        return
    yield from (file.path for file in found.files)
    for name in found.folders:
        yield from below(f"{folder}/{name}")


def data_of(generation_folder: str) -> Iterator[str]:
    """The files in a generation that are no markers, whole or begun."""
    for path in below(generation_folder):
        if not generation.is_marker(path.rpartition("/")[2]):
            yield path


def checksum(path: str) -> int:
    with stores.open_input(path) as source:
        return crc32(source.read())


def require(held: bool, otherwise: str) -> None:
    if not held:
        raise AssertionError(otherwise)


def tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps({"at": time.time(), **facts}) + "\n")
    sys.stdout.flush()


def main(given: dict[str, Any]) -> None:
    victim = Victim(given)
    if victim.notes.exists():
        victim.check()
        tell(checked=True)
    else:
        victim.prepare()
    while given["ways"]:
        act = victim.act()
        tell(survived=act, way=victim.killing.way)
        victim.check()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
