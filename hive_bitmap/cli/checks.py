"""The commands that judge indexes: before they are built, and against their base table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from hive_bitmap.cli.index_options import compression_option, encoding_option, type_option
from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.name_lists import split_names
from hive_bitmap.cli.output import Field, format_option, print_records
from hive_bitmap.cli.records import INDEX_FIELDS, definition_record, thousands
from hive_bitmap.explaining.measures import seconds, size

if TYPE_CHECKING:
    from hive_bitmap.verifying.verify import Verification

VERIFY_FIELDS = (
    *INDEX_FIELDS,
    *(Field(name, name, thousands, right=True) for name in ("shards", "files", "blocks", "rows")),
    *(Field(name, name, thousands, right=True) for name in ("stale", "unindexed", "gone")),
    Field("problem_count", "problems", thousands, right=True),
)

ESTIMATE_FIELDS = (
    *INDEX_FIELDS[1:],
    Field("distinct_keys", "keys", lambda keys: f"≥ {keys:,}", right=True),
    Field("index_bytes", "size", size, right=True),
    Field("base_bytes", "of", size, right=True),
    Field("seconds", "build", seconds, right=True),
    Field("usefulness", "use"),
)


@click.command()
@click.argument("table")
@click.argument("columns", nargs=-1, required=True, type=split_names)
@type_option
@encoding_option
@compression_option
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="Share of the blocks that are looked at, four at least.",
)
@format_option
@click.pass_obj
def estimate(
    endpoint: Endpoint,
    table: str,
    columns: Sequence[list[str]],
    type_: str,
    encoding: str,
    compression: str,
    sample: float,
    format_: str,
) -> None:
    """Estimate the size and use of indexes on TABLE before they are built, from a few of its blocks.

    COLUMNS are as for create. Nothing is written.

    \b
    Example:
      hive-bitmap estimate flights carrier tailnum
    """
    from hive_bitmap.estimating.estimate import estimate as run

    options = {"type": type_, "encoding": encoding, "compression": compression}
    with endpoint.session() as spark:
        found = run(spark, table, columns, sample=sample, **options)
    records = [{**asdict(each), **options, "columns": list(each.columns)} for each in found]
    print_records(format_, records, ESTIMATE_FIELDS, "")


@click.command()
@click.argument("table")
@click.argument("indexes", nargs=-1, metavar="[INDEX]...")
@format_option
@click.pass_context
def verify(context: click.Context, table: str, indexes: Sequence[str], format_: str) -> None:
    """Compare the indexes of TABLE, all or those named, with its rows, one by one.

    Files that changed since they were indexed, or are unknown, are counted: queries read them whole, so they are no
    problem. The exit status is 1 where an index says something wrong of a file that it claims to know.

    \b
    Example:
      hive-bitmap verify flights carrier
    """
    from hive_bitmap.verifying.verify import verify as run

    endpoint: Endpoint = context.obj
    with endpoint.session() as spark:
        found = run(spark, table, indexes)
    print_records(format_, [_record(each) for each in found], VERIFY_FIELDS, f"table {table} has no index")
    for each in found:
        for problem in each.problems:
            messages().print(Text(f"problem: index {each.definition.name}: {problem}", "red"), soft_wrap=True)
        if not each.ok:
            remedy = f"hive-bitmap rebuild {table} {each.definition.name} --full"
            messages().print(Text(f"mend it with: {remedy}"), soft_wrap=True)
    if not all(each.ok for each in found):
        context.exit(1)


def _record(each: Verification) -> dict[str, Any]:
    return {
        **definition_record(each.definition),
        "shards": each.shards,
        "files": each.files,
        "blocks": each.blocks,
        "rows": each.rows,
        "stale": each.stale,
        "unindexed": each.unindexed,
        "gone": each.gone,
        "ok": each.ok,
        "problem_count": each.problem_count,
        "problems": list(each.problems),
    }
