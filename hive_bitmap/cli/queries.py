"""The commands `query`, `explain` and `offsets`."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import click

from hive_bitmap.cli import server
from hive_bitmap.cli.index_options import split_names
from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.output import LIMIT_HELP, format_option, print_count
from hive_bitmap.core.explaining import explain as explaining
from hive_bitmap.core.explaining.measures import measures
from hive_bitmap.core.grammar.script import first_words
from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import STRATEGIES, Strategy
from hive_bitmap.errors import Unsupported
from hive_bitmap.spark.catalyst import explanation as querying

log = logging.getLogger(__name__)
PLANNING_SECONDS = "spark.hive_bitmap.planning_seconds"
columns_option = click.option("--columns", type=split_names, metavar="NAME[,...]", help="Return only these columns.")
strategy_option = click.option(
    "--strategy", type=click.Choice(STRATEGIES), help="Use this strategy instead of the cheapest one."
)
count_option = click.option("--count", is_flag=True, help="Return only the number of rows.")


@click.command()
@click.argument("table")
@click.argument("where", required=False)
@columns_option
@count_option
@click.option("--limit", type=click.IntRange(min=0), help=LIMIT_HELP)
@strategy_option
@click.option("--explain", "explained", is_flag=True, help="Also print the plan, to stderr.")
@format_option
@click.pass_obj
def query(
    endpoint: Endpoint,
    table: str,
    where: str | None,
    columns: Sequence[str] | None,
    count: bool,
    limit: int | None,
    strategy: str | None,
    explained: bool,
    format_: str,
) -> None:
    """Print the rows of TABLE that satisfy WHERE.

    WHERE is an SQL condition. Without WHERE, all rows are printed. The rows are the same as in SQL, and are read
    through the indexes if this is cheaper. JSON is an array with one row a line, in the form of Spark's to_json. JSON
    and CSV are written while rows arrive.

    \b
    Example:
      hive-bitmap query flights "dest = 'ANC'" --columns carrier,flight,time_hour --format csv
      hive-bitmap query flights "dep_time IS NULL" --count
    """
    from hive_bitmap.cli.output import print_rows
    from hive_bitmap.spark.querying import scanning
    from hive_bitmap.spark.querying.scanning import plan, scan

    if count and (columns is not None or limit is not None):
        raise click.UsageError("--count cannot be combined with --columns or --limit")
    if strategy == Strategy.INDEX_ONLY and not count:
        raise click.UsageError(f"--strategy {Strategy.INDEX_ONLY.value!r} answers --count only")
    if endpoint.address is not None and count and strategy is None and not explained:
        server.count(endpoint, table, where, format_)
        return
    with endpoint.session() as spark:
        if explained or log.isEnabledFor(logging.INFO):
            planned = plan(spark, table, where, columns, count=count, strategy=strategy)
            log.info("%s: %s", planned.strategy, planned.reason)
        if explained:
            console = messages()
            print(explaining.to_text(planned, console.width, console.is_terminal), file=sys.stderr)  # noqa: T201
        if count:
            print_count(format_, scanning.count(spark, table, where, strategy=strategy))
        else:
            print_rows(format_, scan(spark, table, where, columns, strategy=strategy), limit)


@click.command()
@click.argument("table")
@click.argument("where", required=False)
@columns_option
@count_option
@strategy_option
@click.option("--analyze", is_flag=True, help="Run the query, and show what was read and found and how long it took.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan to this file as HTML.")
@click.option(
    "--width", type=click.IntRange(min=40), help="Line width in characters.  [default: that of the terminal, or 100]"
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.pass_obj
def explain(
    endpoint: Endpoint,
    table: str,
    where: str | None,
    columns: Sequence[str] | None,
    count: bool,
    strategy: str | None,
    analyze: bool,
    html: Path | None,
    width: int | None,
    format_: str,
) -> None:
    """Show how a query would be answered, and why.

    The output shows the indexes, how many of the files and blocks would be read, and a map of the blocks. Instead of
    TABLE and WHERE, a whole query can be given. Then the output shows each indexed table of the query, and Spark's
    plan.

    \b
    Example:
      hive-bitmap explain flights "carrier = 'UA' AND dest = 'ANC'" --html plan.html
      hive-bitmap explain "SELECT origin, count(*) FROM flights WHERE dest = 'ANC' GROUP BY origin" --analyze
    """
    from hive_bitmap.spark.querying.scanning import plan as make_plan

    is_query = bool({"SELECT", "WITH"} & set(first_words(table, 1)))
    if is_query and (where is not None or columns is not None or count or strategy is not None):
        raise click.UsageError("a query cannot be combined with WHERE, --columns, --count or --strategy")
    if analyze and not is_query:
        raise click.UsageError("--analyze needs a query instead of TABLE and WHERE")
    # planning may take longer here than in a query, because an explanation without its plan would be useless
    unhurried = replace(endpoint, conf={PLANNING_SECONDS: "60", **endpoint.conf})
    with unhurried.session(jobs=analyze) as spark:
        if is_query:
            _show(querying, querying.explain(table, spark, analyze=analyze), html, width, format_)
        else:
            plan = make_plan(spark, table, where, columns, count=count, strategy=strategy)
            _show(explaining, plan, html, width, format_)


@click.command()
@click.argument("table")
@click.argument("where")
@click.argument("out", type=click.Path(dir_okay=False), required=False)
@click.option(
    "--utf8", is_flag=True, help="Allow non-ASCII paths; the JVM of the reader must have UTF-8 as its default charset."
)
@click.option(
    "--min-split",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="With --hiveserver2, the minimum split size of the reader; needed for text, Avro, RCFile and SequenceFile.",
)
@format_option
@click.pass_obj
def offsets(
    endpoint: Endpoint, table: str, where: str, out: str | None, utf8: bool, min_split: int | None, format_: str
) -> None:
    """Write the offsets of blocks that may satisfy WHERE.

    OUT is a compact-index result file for Hive 0.7 to 2.3 (hive.index.compact.file). It has the files of TABLE that may
    have rows satisfying WHERE, and the offsets of the blocks with such rows. Without OUT, these blocks are printed. For
    each block, the number of rows that may satisfy WHERE is printed.

    \b
    Example:
      hive-bitmap offsets flights "tailnum = 'N14228'" n14228.offsets
    """
    from hive_bitmap.spark.querying.offsets_file import write_offsets
    from hive_bitmap.spark.querying.scanning import plan as make_plan

    if min_split is not None and (endpoint.address is None or out is None):
        raise click.UsageError(
            "--min-split needs --hiveserver2 and OUT; in other cases the splits are known from the files"
        )
    if endpoint.address is not None and out is not None:
        plan = server.offsets(endpoint, table, where, out, utf8, min_split)
    elif endpoint.address is not None:
        plan = server.look_up(endpoint, table, where)
    else:
        with endpoint.session(jobs=False) as spark:
            plan = make_plan(spark, table, where) if out is None else write_offsets(spark, table, where, out, utf8=utf8)
    if out is None and plan.candidates is None:
        raise Unsupported(f"every block of {table} may hold rows: {plan.reason}")
    if out is None:
        server.print_blocks(format_, plan)
        return
    messages().print(f"wrote {out}: {_selected(plan)}", soft_wrap=True, markup=False)


def _show(renderer: ModuleType, plan: object, html: Path | None, width: int | None, format_: str) -> None:
    """Print a plan, and write it as HTML if a file is given.

    `format_` is "table" (text) or "json". Lines of text have at most `width` characters; None stands for the width of
    the terminal, or for 100 if this width is unknown. `html` is the file for the HTML. `renderer` is the module whose
    functions to_text, to_json and to_html accept `plan`.
    """
    if html is not None:
        html.write_text(renderer.to_html(plan), encoding="utf-8")
        messages().print(f"wrote {html}", soft_wrap=True, markup=False)
    if format_ == "json":
        sys.stdout.write(json.dumps(renderer.to_json(plan), ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write(renderer.to_text(plan, width, sys.stdout.isatty()) + "\n")


def _selected(plan: Plan) -> str:
    """Describe how many of all files and blocks a plan selects."""
    if not len(plan.files):
        return f"every block ({plan.reason})"
    return ", ".join(f"{selected} of {total} {word}" for word, selected, total, _ in measures(plan)[:2])
