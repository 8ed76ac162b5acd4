"""Run commands on the HiveServer2 of `--hiveserver2`, without starting Spark."""

from __future__ import annotations

import json
import os
import re
import sys
from base64 import b64encode
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.markup import escape

from hive_bitmap.cli.invocation import Endpoint, messages
from hive_bitmap.cli.output import (
    TABLE_ROWS,
    print_count,
    print_records,
    print_reports,
    print_table,
    write_csv,
    write_json,
)
from hive_bitmap.core.explaining.measures import thousands
from hive_bitmap.core.explaining.reports import Field, figure
from hive_bitmap.errors import HiveBitmapError, NotFound, ServerError
from hive_bitmap.hive.hiveserver.connection import AUTHS, HTTP_PATH, PORT, SECONDS, TRANSPORTS, Address, Server

if TYPE_CHECKING:
    from hive_bitmap.core.grammar.script import Part
    from hive_bitmap.core.planning.plan import Plan

PASSWORD = "HIVE_BITMAP_PASSWORD"  # environment variable; other users of the machine can see the arguments of a command
WITH_PASSWORD = ("LDAP", "CUSTOM")
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[^:\s]+)(?::(?P<port>[0-9]{1,5}))?")
_Function = TypeVar("_Function", bound=Callable[..., Any])

BLOCK_FIELDS = (
    Field("path", "file"),
    figure("offset", show=lambda offset: "(all)" if offset is None else str(offset)),
    figure("rows", show=lambda rows: "?" if rows is None else thousands(rows)),
)
_OPTIONS = (
    click.option(
        "--hiveserver2",
        metavar="HOST:PORT",
        help="Use this HiveServer2 instead of Spark, with show, query --count, offsets, sql, register or export-hive.",
    ),
    click.option(
        "--auth",
        type=click.Choice(AUTHS, case_sensitive=False),
        default=AUTHS[0],
        show_default=True,
        help=f"Authentication of HiveServer2; for LDAP and CUSTOM, the password is read from {PASSWORD} or a prompt.",
    ),
    click.option("--username", help="User name for HiveServer2.  [default: your user name on this machine]"),
    click.option(
        "--kerberos-service-name",
        default="hive",
        show_default=True,
        help="Service name in HiveServer2's Kerberos principal, without host and realm.",
    ),
    click.option(
        "--transport",
        type=click.Choice(TRANSPORTS),
        default=TRANSPORTS[0],
        show_default=True,
        help="Transport of HiveServer2, the value of its hive.server2.transport.mode.",
    ),
    click.option(
        "--http-path",
        default=HTTP_PATH,
        show_default=True,
        help="Path for the http transport, the value of hive.server2.thrift.http.path.",
    ),
    click.option("--ssl", is_flag=True, help="Use TLS, for a HiveServer2 with hive.server2.use.SSL."),
    click.option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False),
        help="Trusted CA certificates in PEM format, with --ssl.  [default: those of this machine]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        default=SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for an answer of HiveServer2.",
    ),
)


def server_options(function: _Function) -> _Function:
    """Add the options for a connection to HiveServer2 to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def address_of(
    hiveserver2: str | None,
    auth: str,
    username: str | None,
    kerberos_service_name: str,
    timeout: float,
    transport: str = TRANSPORTS[0],
    http_path: str = HTTP_PATH,
    ssl: bool = False,
    ca_file: str | None = None,
) -> Address | None:
    """Return the address of HiveServer2; None without --hiveserver2.

    Prompts for the password if `auth` needs a password and the environment has none. Raises UsageError for options that
    do not fit together, and BadParameter for an invalid address.
    """
    if hiveserver2 is None:
        return None
    match = _ADDRESS.fullmatch(hiveserver2)
    if match is None or int(match["port"] or PORT) > 65535:
        raise click.BadParameter(f"{hiveserver2!r} is not HOST:PORT", param_hint="--hiveserver2")
    if ca_file is not None and not ssl:
        raise click.UsageError("--ca-file goes with --ssl")
    password = None
    if auth in WITH_PASSWORD:
        password = os.environ.get(PASSWORD) or click.prompt("Password", hide_input=True, err=True)
    return Address(
        host=match["host"].strip("[]"),
        port=int(match["port"] or PORT),
        auth=auth,
        username=username,
        password=password,
        kerberos_service_name=kerberos_service_name,
        seconds=timeout,
        transport=transport,
        http_path=http_path,
        ssl=ssl,
        ca_file=ca_file,
    )


def show(endpoint: Endpoint, table: str, index: str | None, format_: str) -> None:
    """Run the command `show` on the server.

    If `index` is None, all indexes of the table are shown. The output lacks sizes and times, which the server does not
    know.
    """
    from hive_bitmap.hive.hiveserver.states import show as run

    with endpoint.server() as server:
        reports = run(server, table)
    if index is not None:
        names_of_indexes = [report.definition.name for report in reports]
        reports = [report for report in reports if report.definition.name == index.lower()]
        if not reports:
            raise NotFound.of("index", index, names_of_indexes, f"table {table}")
    print_reports(format_, reports, f"table {table} has no index registered with {server.name}")
    for report in reports:
        if report.problem:
            messages().print(f"[yellow]{report.definition.name}: {escape(report.problem)}", soft_wrap=True)


def count(endpoint: Endpoint, table: str, where: str | None, format_: str) -> None:
    """Run the command `query --count` on the server.

    Without `where`, all rows of the table are counted.
    """
    from hive_bitmap.hive.hiveserver.server_queries import count as run

    with endpoint.server() as server:
        print_count(format_, run(server, table, where))


def offsets(endpoint: Endpoint, table: str, where: str, out: str, utf8: bool, min_split: int | None) -> Plan:
    """Run the command `offsets` with the output file `out` on the server.

    `server_queries.write_offsets` describes `utf8` and `min_split`. Return the plan.
    """
    from hive_bitmap.hive.hiveserver.server_queries import write_offsets

    with endpoint.server() as server:
        return write_offsets(server, table, where, out, utf8=utf8, min_split=min_split)


def look_up(endpoint: Endpoint, table: str, where: str) -> Plan:
    """Run the command `offsets` without an output file on the server.

    Return the plan; the caller prints its blocks.
    """
    from hive_bitmap.hive.hiveserver.server_queries import look_up as run

    with endpoint.server() as server:
        return run(server, table, where)


def print_blocks(format_: str, plan: Plan) -> None:
    """Print the selected blocks of a plan: file, offset and number of selected rows.

    A file that is read whole is printed once, without an offset and a number.
    """
    paths = plan.files["path"].to_pylist()
    chosen = plan.blocks.filter(plan.blocks["selected"].to_numpy() > 0).select(["file", "offset", "selected"])
    rows = zip(*(column.to_pylist() for column in chosen.columns), strict=True)
    records = [{"path": paths[file], "offset": offset, "rows": selected} for file, offset, selected in rows]
    whole = plan.files.filter(plan.files["scanned"])["path"].to_pylist()
    records += [{"path": path, "offset": None, "rows": None} for path in whole]
    records.sort(key=lambda record: (record["path"], record["offset"] or 0))
    print_records(format_, records, BLOCK_FIELDS, "no block holds a row")


def run_script(endpoint: Endpoint, parts: list[Part], keep_going: bool, limit: int | None, format_: str) -> None:
    """Run the statements of a script on the server, in one session.

    `parts` are the statements, in the server's dialect. `limit` and `format_` are passed to `_print_rows`. Raises
    HiveBitmapError at the first statement that fails. With `keep_going`, errors are printed instead, and Exit with the
    status 1 is raised at the end if a statement has failed.
    """
    failed = False
    with endpoint.server() as server:
        for number, part in enumerate(parts, 1):
            try:
                _print_rows(server, part.text, limit, format_)
            except ServerError as e:
                reason = f"statement {number} at line {part.line}: {e}"
                if not keep_going:
                    raise HiveBitmapError(reason) from e
                print(f"hive-bitmap: {reason}", file=sys.stderr)  # noqa: T201 - the error message of the statement
                failed = True
    if failed:
        raise click.exceptions.Exit(1)


def _print_rows(server: Server, statement: str, limit: int | None, format_: str) -> None:
    """Run a statement and print its rows, in the format `format_`.

    At most `limit` rows are printed; None stands for TABLE_ROWS in a table, and for all rows in other formats. Binary
    values are printed as Base64.
    """
    with server.result(statement) as (names, batches):
        if not names or (names == ["Result"] and server.is_spark):  # Spark's commands have an empty column `Result`
            return
        rows = ([_value(value) for value in row] for batch in batches for row in batch)
        if format_ == "table":
            shown = islice(rows, TABLE_ROWS if limit is None else limit)
            print_table(names, ([_text(value) for value in row] for row in shown), [False] * len(names))
        elif format_ == "json":
            write_json(
                json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in islice(rows, limit)
            )
        else:
            write_csv(names, islice(rows, limit))


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@click.command()
@click.argument("location")
@click.option("--index-table", metavar="[DB.]NAME", help="Name of the index table.  [default: <db>__<table>_<index>__]")
@click.pass_obj
def register(endpoint: Endpoint, location: str, index_table: str | None) -> None:
    """Register an index that was built elsewhere.

    The index in the folder LOCATION is registered with the server given by --hiveserver2. The base table must exist on
    this server under the same name. If the index is already registered, the index table is created again and points at
    the latest build.

    \b
    Example:
      hive-bitmap --hiveserver2 hive:10000 register hdfs://nn:8020/warehouse/default__flights_carrier__
    """
    from hive_bitmap.hive.hiveserver.register import register as run

    with endpoint.server() as server:
        definition = run(server, location, index_table)
    name = definition.full_index_table
    messages().print(f"index {definition.name} on {definition.full_table} is registered as {name}", markup=False)
