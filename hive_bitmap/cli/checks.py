"""Define the commands `estimate` (before a build) and `verify` (after it)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.text import Text

from hive_bitmap.cli.index_options import compression_option, encoding_option, split_keys, type_option
from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.output import format_option, print_records, print_reports
from hive_bitmap.core.explaining.measures import seconds, size
from hive_bitmap.core.explaining.reports import Field, figure

ESTIMATE_FIELDS = (
    Field("columns", "columns", ", ".join),
    Field("type", "type"),
    Field("encoding", "encoding"),
    figure("distinct_keys", "keys", lambda keys: f"≥ {keys:,}"),
    figure("index_bytes", "size", size),
    figure("base_bytes", "of", size),
    figure("rows_per_key", "rows a key", lambda rows: f"{rows:,.1f}"),
    figure("seconds", "build", seconds),
    Field("usefulness", "use"),
    Field("verdict", "verdict"),
)


@click.command()
@click.argument("table")
@click.argument("columns", nargs=-1, required=True, type=split_keys)
@type_option
@encoding_option
@compression_option
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="Share of the blocks to read; at least four blocks are read.",
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
    """Estimate the size and benefit of indexes on TABLE.

    A sample of the blocks of TABLE is read, and nothing is written. COLUMNS have the same form as in the command
    create.

    \b
    Example:
      hive-bitmap estimate flights carrier tailnum
    """
    from hive_bitmap.spark.estimating.estimate import estimate as run

    options = {"type": type_, "encoding": encoding, "compression": compression}
    with endpoint.session() as spark:
        estimates = run(spark, table, columns, type=type_, encoding=encoding, compression=compression, sample=sample)
    records = [
        {
            **asdict(estimate_),
            **options,
            "columns": list(estimate_.columns),
            "rows_per_key": round(estimate_.rows_per_key, 1),
        }
        for estimate_ in estimates
    ]
    print_records(format_, records, ESTIMATE_FIELDS, "")


@click.command()
@click.argument("table")
@click.argument("indexes", nargs=-1, metavar="[INDEX]...")
@format_option
@click.pass_context
def verify(context: click.Context, table: str, indexes: Sequence[str], format_: str) -> None:
    """Compare the indexes of TABLE with the rows of TABLE.

    All indexes are verified, or only the named indexes. New files, and files that have changed since they were indexed,
    are counted, but are not problems: queries read such files whole. The exit status is 1 if an index is wrong about a
    file that it covers.

    \b
    Example:
      hive-bitmap verify flights carrier
    """
    from hive_bitmap.spark.verifying.verify import verify as run

    endpoint: Endpoint = context.obj
    with endpoint.session() as spark:
        verifications = run(spark, table, indexes)
    print_reports(format_, verifications, f"table {table} has no index")
    for verification in verifications:
        for problem in verification.problems:
            messages().print(Text(f"problem: index {verification.definition.name}: {problem}", "red"), soft_wrap=True)
        if not verification.ok:
            remedy = f"hive-bitmap rebuild {table} {verification.definition.name} --full"
            messages().print(Text(f"repair it with: {remedy}"), soft_wrap=True)
    if not all(verification.ok for verification in verifications):
        context.exit(1)
