"""An index that is damaged again and again, its table, and a neighbour that must stay as it is.

`Damaged` leaves open how answers are computed: by Spark (`test_damaged_files`), or, without a JVM, from what plans and
counts read of an index (`test_damaged_reads`).
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import hive_bitmap
from hive_bitmap.core.index import checksums, generation, lookup, manifest, markers, roots
from hive_bitmap.core.stores import file_cache
from hive_bitmap.errors import HiveBitmapError, StoreError
from hive_bitmap.spark.registry import catalog
from tests.campaigns import damages
from tests.campaigns.damages import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_SHOWN = 12  # findings of a seed after which it ends
MOST_FILES = 60  # of an index, which is built anew then


class Damaged(ABC):
    """A table with two indexes, of which the one is damaged and its neighbour is watched."""

    def __init__(self, spark: SparkSession, folder: Path, rng: random.Random) -> None:
        self.spark, self.rng, self.folder = spark, rng, folder
        self.root, self.neighbour, self.elsewhere = (folder / name for name in ("root", "neighbour", "elsewhere"))
        self.elsewhere.mkdir()
        (self.elsewhere / "precious").mkdir()
        for path in ("precious/file", "file", "_built_by"):
            (self.elsewhere / path).write_text("must stay")
        self.partitioned, self.encoding = rng.random() < 0.7, rng.choice(["gap", "plain", "ewah", "roaring"])
        self.make_table()
        hive_bitmap.build(spark, "t", ["id"], name="j", location=str(self.neighbour))
        self.build()
        self.damaged: tuple[Path, Path] | None = None

    @abstractmethod
    def make_table(self) -> None:
        """Make the table `t` of the columns k, s, id and p in the folder `base`, with three files."""

    @abstractmethod
    def require_right(self) -> None:
        """Compare some answers with the right ones."""

    def build(self) -> None:
        """Build the index, and leave a replaced and a half-built generation behind."""
        self.lost_marker = False  # whether a damage has deleted the marker of the root
        options = {"encoding": self.encoding, "location": str(self.root), "aggregates": "id"}
        hive_bitmap.build(self.spark, "t", [["k", "s"]], name="i", **options)
        halves = [path for path in self.root.rglob("generation-*") if path.is_dir()]
        for _ in range(2):
            hive_bitmap.rebuild(self.spark, "t", ["i"], full=True)
        for half in halves:
            (half / checksums.FOLDER / manifest.SHARDS_NAME).unlink()
            (half / generation.RETIRED).unlink()
            marker = json.loads((half / generation.MARKER).read_text())
            marker.pop("crc32")
            markers.write(f"file:{half}", generation.MARKER, {**marker, "pid": 1 << 30})

    def entries(self) -> tuple[list[Path], list[Path]]:
        below = sorted(self.root.rglob("*"))
        return [path for path in below if path.is_file()], [path for path in (self.root, *below) if path.is_dir()]

    def damage(self) -> str:
        files, folders = self.entries()
        if not folders:
            return "nothing is left to be damaged"
        of_folder = self.rng.random() < 0.15 or not files
        entry = self.rng.choice(folders if of_folder else files)
        ways, weights = zip(*(damages.OF_FOLDERS if of_folder else damages.OF_FILES), strict=True)
        [way] = self.rng.choices(ways, weights)
        if entry == self.root and way in (damages.link_to_a_copied_folder, damages.link_to_a_folder):
            way = damages.become_a_file  # a root may be a link: what it leads to is the root, and is written to
        kept = self.folder / "kept"
        damages.remove(kept)
        (shutil.copytree if of_folder else shutil.copy2)(entry, kept, **({"symlinks": True} if of_folder else {}))
        self.damaged = entry, kept
        said = way(Site(entry, files, self.elsewhere, self.rng))
        return f"{entry.relative_to(self.folder)}: {said}"

    def plant(self) -> str:
        """Put a link into the root that has the name of a generation and leads elsewhere."""
        if not self.root.is_dir():
            return "nothing is left to plant in"
        parents = [self.root, *(path for path in self.root.glob("p=*") if path.is_dir())]
        link = self.rng.choice(parents) / "generation-20200102T000000-0123abcd"
        link.symlink_to(self.elsewhere)
        self.damaged = link, link
        return f"{link.relative_to(self.folder)}: a link to a folder elsewhere, planted"

    def mend(self) -> None:
        """Put back what was damaged, unless it was deleted together with what it belongs to."""
        if self.damaged is None:
            return
        entry, kept = self.damaged
        self.damaged = None
        self.lost_marker |= entry == self.root / roots.MARKER and not entry.exists()
        if entry != kept and entry.parent.exists() and (entry.exists() or entry.is_symlink()):
            damages.remove(entry)
            shutil.move(kept, entry)
        elif entry == kept:
            damages.remove(entry)

    def forget(self) -> None:
        """Empty the caches of what normally never changes."""
        catalog.clear_caches()
        lookup.clear_caches()
        file_cache.forget()
        for kept in (checksums.of_generation, manifest.read):
            kept.cache_clear()

    @property
    def is_unproved(self) -> bool:
        """Whether nothing tells whose the root is: its marker is damaged or lost, and no generation has a whole one."""
        marker = self.root / roots.MARKER
        is_damaged = self.damaged is not None and self.damaged[0] == marker
        is_lost = self.lost_marker and not marker.exists()
        return (is_damaged or is_lost) and not any(
            generation.definition_of(f"file:{path}") for path in self.root.glob("*")
        )

    def upkeep(self) -> str:
        """One of the things that owners do to an index; after a drop it is built anew."""
        step = self.rng.choices(UPKEEP, [3, 2, 3, 1, 4, 2])[0]
        self.forget()
        step(self)
        return step.__name__

    def show(self) -> None:
        [shown, _] = hive_bitmap.show(self.spark, "t")
        assert shown.definition.name == "i"

    def verify(self) -> None:
        hive_bitmap.verify(self.spark, "t", ["i"])

    def rebuild(self, *, full: bool = False) -> None:
        """Rebuild the index: it has no problem then, unless the marker of its root is damaged, which nothing mends."""
        hive_bitmap.rebuild(self.spark, "t", ["i"], full=full)
        problem = hive_bitmap.show(self.spark, "t")[0].problem
        of_marker = self.damaged is not None and self.damaged[0] == self.root / roots.MARKER
        assert not problem or (of_marker and "left alone" in problem), problem

    def rebuild_all(self) -> None:
        self.rebuild(full=True)

    def clean(self) -> None:
        hive_bitmap.clean(self.spark, "t", grace_seconds=self.rng.choice([0, 3600]))

    def drop(self) -> None:
        """Drop the index; what is not known to be its own stays, and a sentence says so."""
        with contextlib.suppress(StoreError):
            hive_bitmap.drop(self.spark, "t", "i")
        assert [one.definition.name for one in hive_bitmap.show(self.spark, "t")] == ["j"]

    def anew(self) -> None:
        """Begin with a new index in an empty root."""
        self.forget()
        with contextlib.suppress(StoreError):
            hive_bitmap.drop(self.spark, "t", "i", if_exists=True)
        damages.remove(self.root)
        self.build()


UPKEEP: tuple[Callable[[Damaged], None], ...] = (
    Damaged.show,
    Damaged.verify,
    Damaged.rebuild,
    Damaged.rebuild_all,
    Damaged.clean,
    Damaged.drop,
)


def live(state: Damaged) -> bool:
    return any(one.definition.name == "i" for one in hive_bitmap.show(state.spark, "t"))


def attempt(state: Damaged, said: list[str], counts: Counter[str]) -> None:
    """One damage, answers, one act of upkeep, answers; whatever is not as it should be raises."""
    watched = (state.folder / "base", state.neighbour)
    said.append(state.plant() if state.rng.random() < 0.05 else state.damage())
    of_root = state.damaged is not None and state.damaged[0].is_dir() | state.damaged[1].is_dir()
    before = damages.digest(*watched, state.elsewhere)
    with damages.bound_by_modes():
        state.require_right()
        step = None
        try:
            step = state.upkeep()
            counts[step] += 1
        except HiveBitmapError as e:
            if not of_root and not state.is_unproved:
                raise
            counts[f"refused: {type(e).__name__}"] += 1
        said.append(str(step))
        state.require_right()
    changed = damages.digest(*watched, state.elsewhere).items() ^ before.items()
    assert not changed, f"touched: {sorted(changed)[:5]}"


def require_unharmed(state: Damaged, seed: int, number: int) -> Counter[str]:
    """Damage the index so many times; return how often each act of upkeep was done. At last the index is dropped."""
    findings: list[str] = []
    counts = Counter[str]()
    for at in range(number):
        said: list[str] = []
        try:
            attempt(state, said, counts)
            state.mend()
            state.forget()
            if said[-1] in ("drop", "None") or not live(state) or len(state.entries()[0]) > MOST_FILES:
                state.anew()
        except Exception:  # noqa: BLE001 - collected, so that one run tells of all
            findings.append(f"seed {seed}, damage {at}: {' | '.join(said)}\n{traceback.format_exc(limit=-6)}")
            if len(findings) == MOST_SHOWN:
                break
            state.mend()
            state.anew()
    assert not findings, f"{len(findings)} findings\n" + "\n".join(findings)
    state.anew()
    hive_bitmap.drop(state.spark, "t", "i")
    assert not state.root.exists(), damages.digest(state.root)
    return counts
