"""The figures as tables for people and as JSON for programs. What we lose is marked, not left out."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench import tables
from bench.data import KEYS, Data, summary
from bench.measure import (
    BUILT_SUMS,
    DUCKDB,
    NATIVE,
    OURS,
    PLAIN,
    SPARK,
    TASKS,
    Asked,
    Built,
    Grouped,
    Overhead,
    Refreshed,
    Results,
)
from bench.memory import DRIVER, JVM, WORKER
from bench.targets import BUILD_RATIO, PAIMON_BITMAP_BYTES, PAIMON_RANGE_BITMAP_BYTES, PAIMON_SOURCE, Target, ratio
from hive_bitmap.core.explaining.measures import percent, seconds, size

PACKAGES = ("hive_bitmap", "pyspark", "duckdb", "pyarrow", "numpy")
LOST = "▼"


def conditions(spark: SparkSession, data: Data, cores: int, repeats: int) -> dict[str, Any]:
    """What the figures depend on."""
    return {**machine(spark, cores), "data": summary(data), "repeats": repeats}


def machine(spark: SparkSession, cores: int) -> dict[str, Any]:
    """Return the versions, and what the figures depend on besides the data."""
    java = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version')").collect()[0][0]
    versions = {name: version(name) for name in PACKAGES}
    return {
        "versions": {**versions, "python": platform.python_version(), "java": java},
        "machine": f"{platform.system()} {platform.machine()}",
        "cores_used": cores,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if sys.platform != "win32" else None,
    }


def show(console: Console, found: Mapping[str, Any], results: Results, reached: Sequence[Target]) -> None:
    """Print all tables."""
    _show_conditions(console, found)
    rows = found["data"]["rows"]
    shown = (
        _builds(results),
        _refreshed(results.refreshed),
        _sizes(results, rows),
        _counts([asked for asked in results.asked if asked.count]),
        _grouped(results.grouped),
        _overheads(results.overheads),
        _fetches([asked for asked in results.asked if not asked.count]),
        _estimates(results.asked),
        _memory(results.memory),
        _targets(reached),
    )
    for table in shown:
        tables.show(console, table)
    console.print(
        f"[dim]Times: medians of {found['repeats']} turns, warm, planning included. {LOST}: we lose, or miss a target."
    )


def write_json(path: Path, found: Mapping[str, Any], results: Results, reached: Sequence[Target]) -> None:
    """All that was measured, each turn's seconds included."""
    raw = {**found, **asdict(results), "targets": [asdict(target) for target in reached]}
    for built in raw["builds"]:
        del built["race"]["answers"]
    for asked in (*raw["asked"], *raw["grouped"], *raw["overheads"], raw["summed"]):
        del asked["race"]["answers"]
    path.write_text(json.dumps(raw, indent=1) + "\n")


def _show_conditions(console: Console, found: Mapping[str, Any]) -> None:
    data = found["data"]
    console.rule("[bold]hive_bitmap[/] beside Spark and DuckDB")
    show_machine(console, found)
    console.print(
        f"{data['rows']:,} rows in {data['files']} Parquet files of {data['blocks']} blocks, {size(data['bytes'])}\n"
    )


def show_machine(console: Console, found: Mapping[str, Any]) -> None:
    """Print the versions and the machine."""
    memory = found["memory_bytes"]
    console.print(", ".join(f"{name} {number}" for name, number in found["versions"].items()))
    console.print(
        f"{found['machine']}, {found['cores_used']} of {found['cores']} cores used"
        + (f", {size(memory)} of memory" if memory else "")
    )


def _builds(results: Results) -> Table:
    table = _table("Build of one index, beside Spark's GROUP BY of the column")
    _columns(table, ["column"], ["keys", "GROUP BY", "build", "ratio", "index", "index rows"])
    for built in results.builds:
        table.add_row(*_built(built))
    apart = sum(built.race.median(OURS) for built in results.builds)
    by_spark = sum(built.race.median(SPARK) for built in results.builds)
    together = sorted(results.together.seconds)[len(results.together.seconds) // 2]
    table.add_section()
    total = size(sum(built.size for built in results.builds))
    table.add_row("all, one by one", "", seconds(by_spark), seconds(apart), f"{apart / by_spark:.2f}x", total, "")
    total = size(sum(results.together.size.values()))
    table.add_row("all in one pass", "", "", seconds(together), f"{together / by_spark:.2f}x", total, "")
    for names in BUILT_SUMS:
        table.add_section()
        without = results.summed.race.median(names[0])
        for name in names:
            took = results.summed.race.median(name)
            table.add_row(name, "", "", seconds(took), f"{took / without:.2f}x", size(results.summed.size[name]), "")
    return table


def _built(built: Built) -> list[str | Text]:
    ours, theirs = built.race.median(OURS), built.race.median(SPARK)
    times = marked(f"{ours / theirs:.2f}x", ours <= BUILD_RATIO * theirs)
    figures = (size(built.size), f"{built.index_rows:,}")
    return [built.column, f"{built.keys:,}", seconds(theirs), seconds(ours), times, *figures]


def _refreshed(found: Refreshed) -> Table:
    table = _table(f"Rebuild of an index of {found.files:,} files of {found.rows:,} rows")
    _columns(table, [""], ["seconds"])
    table.add_row("nothing new (the fixed cost)", seconds(median(found.nothing)))
    table.add_row("one new file", seconds(median(found.one_new)))
    table.add_row("build of such a file alone", seconds(median(found.alone)))
    return table


def _sizes(results: Results, rows: int) -> Table:
    table = _table("Size of each index, by encoding")
    _columns(table, ["column"], ["gap", "roaring", "ewah", "plain"])
    gaps = {built.column: built.size for built in results.builds}
    for column in KEYS:
        others = results.sizes[column]
        smallest = gaps[column] <= min(others.values())  # of plain too, which zstd makes small where keys are few
        cells = [size(others[name]) if name in others else "-" for name in ("roaring", "ewah", "plain")]
        table.add_row(column, marked(size(gaps[column]), smallest), *cells)
    table.add_section()
    sums = {name: [results.sizes[column].get(name) for column in KEYS] for name in ("roaring", "ewah", "plain")}
    cells = ["-" if None in found else size(sum(filter(None, found))) for found in sums.values()]
    table.add_row("all", size(sum(gaps.values())), *cells)
    bitmap, ranges = (size(int(per_row * rows)) for per_row in (PAIMON_BITMAP_BYTES, PAIMON_RANGE_BITMAP_BYTES))
    table.caption = f"bitmap {bitmap}, range-bitmap {ranges}: {PAIMON_SOURCE}"
    return table


def _counts(asked: Sequence[Asked]) -> Table:
    table = _table("COUNT(*)")
    _columns(table, ["question"], ["rows", "Spark", "hive_bitmap", "DuckDB", "to Spark", "to DuckDB"])
    _columns(table, ["strategy"], [PLAIN, "to Spark", "index decoded", "blocks", "equal"])
    for each in asked:
        plain = each.race.median(PLAIN)
        faster = each.race.median(SPARK) / plain
        by_sql = (seconds(plain), marked(f"{faster:.1f}x", faster >= 1))
        table.add_row(*_asked(each), each.strategy, *by_sql, size(each.index), _of(each.blocks), _equal(each))
    return table


def _grouped(found: Sequence[Grouped]) -> Table:
    table = _table("Aggregates, through SQL")
    _columns(table, ["query"], ["rows", "Spark", "hive_bitmap", "DuckDB", "to Spark", "to DuckDB", "equal"])
    for each in found:
        times = [seconds(each.race.median(name)) for name in (SPARK, OURS, DUCKDB)]
        faster = [each.race.median(name) / each.race.median(OURS) for name in (SPARK, DUCKDB)]
        table.add_row(
            each.sql, f"{each.rows:,}", *times, *(marked(f"{one:.1f}x", one >= 1) for one in faster), _equal(each)
        )
    return table


def _overheads(found: Sequence[Overhead]) -> Table:
    table = _table("Planning overhead without a usable index: queries planned, not run")
    _columns(table, [""], ["Spark", "hive_bitmap", "added"])
    for each in found:
        times = [seconds(each.race.median(name)) for name in (SPARK, OURS)]
        table.add_row(f"{each.about}\n[dim]{each.sql}[/]", *times, f"{1000 * each.seconds:.1f} ms")
    return table


def _fetches(asked: Sequence[Asked]) -> Table:
    table = _table("All columns of the rows, as an Arrow table, by plain Spark")
    _columns(table, ["question"], ["rows", "Spark", "hive_bitmap", "DuckDB", "to Spark", "to DuckDB"])
    _columns(table, ["strategy"], [NATIVE, TASKS, "blocks", "bytes", "equal"])
    for each in asked:
        read = Text(f"{size(each.bytes[0])} of {size(each.bytes[1])}\n{percent(*each.bytes)}")
        forced = [seconds(each.race.median(name)) if name in each.race.seconds else "-" for name in (NATIVE, TASKS)]
        table.add_row(*_asked(each), each.strategy, *forced, _of(each.blocks), read, _equal(each))
    return table


def _estimates(asked: Sequence[Asked]) -> Table:
    table = _table("What the planner expects, beside what was measured")
    _columns(table, ["question", "strategy"], ["expected", "measured", "ratio"])
    for each in asked:
        for number, (strategy, expected, measured) in enumerate(each.estimates()):
            what = f"{'COUNT(*)' if each.count else 'rows'}, {each.question.name} on {each.table}" if not number else ""
            found = marked(f"{expected / measured:.2f}x", 0.5 <= expected / measured <= 2)
            table.add_row(what, strategy, seconds(expected), seconds(measured), found)
        table.add_section()
    return table


def _memory(found: Mapping[str, Mapping[str, int]]) -> Table:
    table = _table("The most memory that a process had by then")
    _columns(table, [""], list(found))
    for process in (DRIVER, JVM, WORKER):
        table.add_row(process, *(size(peaks[process]) if process in peaks else "-" for peaks in found.values()))
    return table


def _asked(asked: Asked) -> list[str | Text]:
    ran = asked.race.seconds
    engines = [seconds(asked.race.median(name)) if name in ran else "-" for name in (SPARK, OURS, DUCKDB)]
    faster = {name: ratio(asked, name) for name in (SPARK, DUCKDB) if name in ran}
    ratios = [marked(f"{faster[name]:.1f}x", faster[name] >= 1) if name in ran else "-" for name in (SPARK, DUCKDB)]
    about = Text.assemble((f"{asked.question.name} on {asked.table}", "bold"), (f"\n{asked.question.about}", "dim"))
    return [about, f"{asked.rows:,}", *engines, *ratios]


def _targets(reached: Sequence[Target]) -> Table:
    table = _table("Targets")
    _columns(table, ["target"], ["measured"])
    table.add_column("")
    for number, target in enumerate(reached):
        if number and target.later and not reached[number - 1].later:
            table.add_section()
            table.add_row("[dim]not promised yet", "", "")
        table.add_row(target.what, target.figure, marked("met" if target.met else "missed", target.met))
    return table


def _table(title: str) -> Table:
    return Table(title=f"\n{title}", title_justify="left", title_style="bold", caption_justify="left")


def _columns(table: Table, left: Sequence[str], right: Sequence[str]) -> None:
    for heading in left:
        table.add_column(heading)
    for heading in right:
        table.add_column(heading, justify="right")


def marked(figure: str, good: bool) -> Text:
    return Text(figure, "green") if good else Text(f"{LOST} {figure}", "bold red")


def _of(blocks: tuple[int, int]) -> str:
    return f"{blocks[0]:,} of {blocks[1]:,}"


def _equal(asked: Asked | Grouped) -> Text:
    return Text("✓", "green") if asked.equal else Text("DIFFERS", "bold red")
