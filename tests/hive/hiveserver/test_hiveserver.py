"""Counts, blocks and result files through HiveServer2, against the server's own full scans and another engine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

import hive_bitmap
from hive_bitmap import cli
from hive_bitmap.cli.server import PASSWORD
from hive_bitmap.core.index.definition import POINTER
from hive_bitmap.core.table_info import index_table_name
from hive_bitmap.errors import CorruptIndex, InvalidPredicate, NotFound, NotPermitted, ServerError, Unsupported
from hive_bitmap.hive.hiveserver import files
from hive_bitmap.hive.hiveserver.connection import Server
from hive_bitmap.hive.hiveserver.register import create_table, register
from hive_bitmap.hive.hiveserver.server_queries import count, look_up, write_offsets
from hive_bitmap.hive.hiveserver.states import show
from hive_bitmap.hive.hiveserver.tables import describe, indexes
from hive_bitmap.spark.metastore.jvm_settings import TRUSTED_OWNERS
from tests.hive.hiveserver.lake import FILES, INDEXES, PLAIN, ROWS, Lake, lake, write_file
from tests.servers import ldap
from tests.servers.hiveserver import HiveServer
from tests.servers.hiveserver import run as run_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.hive, pytest.mark.turn(3)]
SERVERS = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("hive2", "hive4", "thrift_server")]
PREDICATES = [
    "k = 0",
    "NOT (k = 0 OR k IS NULL)",
    "k IN (-8000, 8000, 7) OR k < -5000",
    "s = 'a b' OR s = ''",
    "s > 'a' AND s <= 'é'",
    "NOT s LIKE 'a%'",
    "s NOT IN ('é', '100%')",
    "d > 1.25",
    "d IN (-2.75, 0.5) OR d = 1",
    "NOT d <= 0.25 AND v = 'v1'",
    "dt < DATE '2020-02-25' OR dt = DATE '2020-03-01'",
    "dt <> DATE '2020-02-29' AND s IS NOT NULL",
    "NOT b OR f IS NULL",
    "b = false AND (k > 3000 OR s = 'x')",
]
BY_PARTITION = ["k = 2", "k = 2 AND m = 1", "k < 3 AND (m = 2 OR r = 'a b')", "r = 'x'", "m = 3", "k <> 2 OR m = 1"]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(spark, tmp_path_factory.mktemp("lake")) as tables:
        yield tables


@pytest.fixture(scope="module", params=SERVERS)
def running(request: pytest.FixtureRequest) -> HiveServer:
    server: HiveServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="module")
def server(running: HiveServer, made: Lake) -> Iterator[Server]:
    """A connection to a server that knows tables and indexes."""
    with made.known_to(running) as asked:
        yield asked


def test_counts_are_those_of_a_full_scan(server: Server, running: HiveServer, made: Lake) -> None:
    """The oldest server has the most to prove, and is the quickest."""
    every = 1 if running.version.startswith("2") else 3
    for table, all_of_it in ((f"{made.database}.t", PREDICATES), (f"{made.database}.p", BY_PARTITION)):
        predicates = all_of_it[::every]
        sums = ", ".join(f"sum(IF({predicate}, 1, 0))" for predicate in predicates)
        [expected] = server.all(f"SELECT {sums} FROM {table}")
        found = [count(server, table, predicate) for predicate in predicates]
        assert dict(zip(predicates, found, strict=True)) == dict(zip(predicates, expected, strict=True))


def test_blocks_are_those_that_hold_rows(server: Server, made: Lake) -> None:
    """Exact conditions select the blocks that hold a row, and so many of it; others select no fewer."""
    rows = made.rows  # noqa: F841 - DuckDB sees it
    every = duckdb.sql("SELECT count(DISTINCT (path, block)) FROM rows").fetchall()[0][0]
    for predicate in ("k = 0 AND s = 'b'", "id = 1234", "id % 7 = 3 AND dt = DATE '2020-02-29'"):
        plan = look_up(server, f"{made.database}.t", predicate)
        paths = plan.files["path"].to_pylist()
        chosen = plan.blocks.filter(pa.array(plan.blocks["selected"].to_numpy() > 0)).to_pylist()
        found = {(paths[one["file"]], one["offset"]): one["selected"] for one in chosen}
        held = duckdb.sql(f"SELECT path, block, count(*) FROM rows WHERE {predicate} GROUP BY ALL").fetchall()
        expected = {(path, block): n for path, block, n in held}
        assert found == expected if plan.rows_selected is not None else set(expected) <= set(found)
        assert 0 < len(found) < every


def test_an_index_that_another_user_made_is_not_believed_unless_a_setting_names_him(
    server: Server, running: HiveServer, made: Lake
) -> None:
    """Spark's Thrift Server tells who made a table; of these servers of Hive all tables are their own."""
    base = describe(server, f"{made.database}.t")
    [(table, definition)] = [(one, found) for one, found, _ in indexes(server, base) if found.name == "k"]
    [segment] = Path(table.location.removeprefix("file:")).glob("generation-*")
    forged = replace(definition, name="m", index_table=index_table_name(made.database, "t", "m"))

    def why() -> dict[str, str]:
        return {found.name: reason for _, found, reason in indexes(server, base)}

    with contextlib.closing(running.connect(username="mallory")) as connection:
        create_table(Server(connection), base, forged, [f"{table.location}/{segment.name}"])
    try:
        told = why()
        assert describe(server, forged.sql_name).owner == ("mallory" if server.is_spark else base.owner) != ""
        assert (told.pop("m") != "") is server.is_spark and set(told.values()) == {""}
        if server.is_spark:
            assert "belongs to mallory and table" in why()["m"]
            assert [one.problem != "" for one in show(server, base.full_name) if one.definition.name == "m"] == [True]
        server.all(f"SET {TRUSTED_OWNERS}=etl,mallory")
        assert set(why().values()) == {""}
    finally:
        server.all(f"SET {TRUSTED_OWNERS}=")
        server.all(f"DROP TABLE {forged.sql_name}")


def test_an_index_table_in_another_database(server: Server, made: Lake) -> None:
    base, elsewhere = describe(server, f"{made.database}.t"), f"{made.database}_x"
    [(table, definition)] = [(one, found) for one, found, _ in indexes(server, base) if found.name == "k"]
    [segment] = Path(table.location.removeprefix("file:")).glob("generation-*")
    apart = replace(definition, name="m", index_table="own", index_database=elsewhere)
    server.all(f"CREATE DATABASE {elsewhere}")
    try:
        create_table(server, base, apart, [f"{table.location}/{segment.name}"])
        pointed = describe(server, base.full_name)
        found = [(one.full_name, of, why) for one, of, why in indexes(server, pointed) if of.name == "m"]
        assert found == [(f"{elsewhere}.own", apart, "")] and len(indexes(server, base)) < len(indexes(server, pointed))
        [of_m] = [one for one in show(server, base.full_name) if one.definition.name == "m"]
        assert (of_m.problem, of_m.fresh) == ("", FILES)
        server.all(f"DROP TABLE {elsewhere}.own")
        assert len(indexes(server, pointed)) == len(indexes(server, base)), "the pointer leads to no table"
    finally:
        server.all(f"DROP DATABASE {elsewhere} CASCADE")
        server.all(f"ALTER TABLE {base.sql_name} UNSET TBLPROPERTIES ('{POINTER}')")


def test_errors_are_told(server: Server, running: HiveServer, made: Lake, tmp_path: Path) -> None:
    table, out = f"{made.database}.t", tmp_path / "out"
    with pytest.raises(NotFound, match=rf"no table 'nix' in database {made.database}; known: .*\bt\b"):
        count(server, f"{made.database}.nix", "k = 0")
    with pytest.raises(NotFound, match=rf"no database 'nix'; known: .*\b{made.database}\b"):
        count(server, "nix.t", "k = 0")
    with pytest.raises(Unsupported, match=r"cannot tell how many rows satisfy 'f > 0.5': ask the engine"):
        count(server, table, "f > 0.5")
    with pytest.raises(Unsupported, match="index its columns as BITMAP"):
        count(server, table, "id = 1234")
    with pytest.raises(InvalidPredicate, match="not closed"):
        count(server, table, "(k = 0")
    with pytest.raises(ServerError, match=r"the server rejected: .*SELEC"):
        server.all("SELEC 1")
    name = f"{made.database}.{made.database}__other_i__"
    for statement in (PLAIN.format(f"{made.database}.other", made.base / "t"), f"CREATE TABLE {name} (k int)"):
        server.all(statement)
    with pytest.raises(NotFound, match=rf"table {name} is not an index table of hive_bitmap, or its properties"):
        count(server, f"{made.database}.other", "k = 0")
    if server.is_spark:
        with pytest.raises(Unsupported, match="Spark's Thrift Server cannot list folders"):
            register(server, f"file:{made.base}/t")
        with pytest.raises(Unsupported, match="does not show all files that a reader in Hive may see: ask HiveServer2"):
            write_offsets(server, table, "k = 5", str(out))
        server.all(f"CREATE TABLE {made.database}.words (k int) STORED AS TEXTFILE")
        with pytest.raises(
            Unsupported, match="does not show all files that it reads as text: ask HiveServer2, or Spark"
        ):
            count(server, f"{made.database}.words", "k = 5")
        return
    with pytest.raises(NotFound, match=r"folder .* has no complete segment of an index that"):
        register(server, f"file:{made.base}/t")
    write_offsets(server, table, "k = 5", str(out))
    assert out.read_bytes() == b""
    if running.version.startswith("2"):
        [root] = [root for root in made.roots if "__t_k__" in root]
        [generation] = Path(root.removeprefix("file:")).glob("generation-*")
        newer = replace(register(server, root), compression="zstd")
        create_table(server, describe(server, table), newer, [f"{root}/{generation.name}"])
        with pytest.raises(
            Unsupported, match=r"k is compressed with zstd, which Hive 2.3.10 cannot read: set its prop"
        ):
            count(server, table, "k = 0")
        register(server, root)
    with contextlib.closing(running.connect(**{"hive.security.command.whitelist": "set"})) as connection:
        reason = r"the server does not permit this: Insufficient privileges to execute dfs: .*; ask its administrator"
        with pytest.raises(NotPermitted, match=reason):  # nobody could tell whether the index is fresh
            count(Server(connection, "the server"), table, "k = 0")


def test_columns_of_orc_by_their_places(server: Server, made: Lake) -> None:
    name = f"{made.database}.places"
    server.all(f"CREATE TABLE {name} (k int) STORED AS ORC")
    for begin, end in (
        ("SET orc.force.positional.evolution=true", "SET orc.force.positional.evolution=false"),
        (
            f"ALTER TABLE {name} SET TBLPROPERTIES ('orc.force.positional.evolution'='true')",
            f"ALTER TABLE {name} UNSET TBLPROPERTIES ('orc.force.positional.evolution')",
        ),
    ):
        server.all(begin)
        with pytest.raises(Unsupported, match=r"read differently from how it was indexed: .*orc\.force\.positional"):
            count(server, name, "k = 5")
        server.all(end)
        with pytest.raises(NotFound, match="no index of table"):
            count(server, name, "k = 5")


def test_folders_of_any_name(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "a b $HOME ${x} [1]{2}*?;'q'\"\\`%41"
    (folder / "sub").mkdir(parents=True)
    (folder / "f 1").write_text("one\n\ntwo")
    if server.is_spark:
        with pytest.raises(Unsupported, match=r"reads '\{' in the path .* as a pattern: use HiveServer2"):
            files.entries(server, f"file:{folder}")
        return
    found = files.entries(server, f"file:{folder}")
    assert found is not None
    assert [(one.name, one.is_folder) for one in found] == [("f 1", False), ("sub", True)]
    assert (found[0].size, found[0].mtime_ms) == (8, (folder / "f 1").stat().st_mtime_ns // 1_000_000)
    assert list(files.lines(server, f"file:{folder}/f 1")) == ["one", "", "two"]
    assert files.entries(server, f"file:{folder}/sub") == []
    assert files.entries(server, f"file:{folder}/nix") is None


def test_changed_files_are_named(server: Server, made: Lake, tmp_path: Path) -> None:
    """What the index does not know as it is now is refused where it matters; what is gone does not."""
    table, folder, out = f"{made.database}.t", made.base / "t", tmp_path / "changed"
    whole = count(server, table, None)
    write_file(folder / "more.parquet", 1)
    plan = look_up(server, table, "k = 0")
    assert plan.files.filter(plan.files["scanned"])["path"].to_pylist() == [f"file:{folder}/more.parquet"]
    for refused in (lambda: count(server, table, "k = 0"), lambda: write_offsets(server, table, "k = 0", str(out))):
        with pytest.raises(Unsupported, match=r"like .*more.parquet .*rebuild the index|ask HiveServer2"):
            refused()
    assert not out.exists()
    assert {(each.fresh, each.unindexed) for each in show(server, table)} == {(FILES, 1)}
    (folder / "more.parquet").unlink()
    first = folder / "part 0.parquet"
    first.rename(folder / "_away")
    assert count(server, table, None) == whole - ROWS // FILES
    write_file(first, 1)
    with pytest.raises(Unsupported, match=r"part 0.parquet \(changed since it was indexed\)"):
        count(server, table, "k = 0")
    (folder / "_away").rename(first)
    [root] = [root for root in made.roots if "__t_k__" in root]
    [generation] = Path(root.removeprefix("file:")).glob("generation-*")
    (generation / "stranger.parquet").write_bytes(b"PAR1")
    with pytest.raises(CorruptIndex, match=r"was changed after the build, see stranger.parquet: rebuild the index"):
        count(server, table, "k = 0")
    (generation / "stranger.parquet").unlink()


def test_commands(
    server: Server, running: HiveServer, made: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, address = f"{made.database}.t", ["--hiveserver2", f"{running.host}:{running.port}", "--timeout", "300"]

    def run(*argv: str) -> str:
        assert cli.main([*address, *argv]) == 0
        return capsys.readouterr().out

    rows = made.rows  # noqa: F841 - DuckDB sees it
    where = "k = 0 AND s = 'b'"
    [(expected,)] = duckdb.sql(f"SELECT count(*) FROM rows WHERE {where}").fetchall()
    assert run("query", table, where, "--count") == f"{expected}\n"
    shown = json.loads(run("show", table, "--format", "json"))
    assert {one["index"]: (one["fresh"], one["base_rows"]) for one in shown} == dict.fromkeys(INDEXES, (FILES, ROWS))
    listed = json.loads(run("offsets", table, where, "--format", "json"))
    assert sum(one["rows"] for one in listed) == expected
    if not server.is_spark:
        assert run("offsets", table, where, str(tmp_path / "result")) == ""
        lines = [line.split("\x01") for line in (tmp_path / "result").read_text().splitlines()]
        written = {(path, int(offset)) for path, offsets in lines for offset in offsets.split("\x02")}
        assert written == {(one["path"], one["offset"]) for one in listed}
    assert run("sql", "-e", f"USE {made.database}; SELECT count(*) AS n FROM t", "--format", "csv") == f"n\n{ROWS}\n"
    code = (
        f"import sys\nfrom hive_bitmap import cli\ncli.main({[*address, 'query', table, where, '--count']})\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{expected}\n[]\n", "")
    assert cli.main([*address, "sql", "-e", "SELECT 1; SELEC 2"]) == 1
    assert "statement 2 at line 1: " in capsys.readouterr().err


@pytest.mark.xdist_group("ldap")
def test_users_of_a_directory(
    hive2_of_users: HiveServer,
    spark: SparkSession,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who is known to it may ask, with the right password; others are told so at once."""
    write_file(tmp_path / "t" / "part.parquet", 0)
    made = PLAIN.format(f"{database}.t", tmp_path / "t")
    spark.sql(made)
    [report] = hive_bitmap.build(spark, "t", ["k"], compression="snappy")
    with contextlib.closing(hive2_of_users.connect()) as connection:
        for statement in (f"CREATE DATABASE {database}", made):
            run_statement(connection, statement)
    address = f"{hive2_of_users.host}:{hive2_of_users.port}"

    def ask_as(user: str, password: str, *argv: str, auth: str = "LDAP") -> int:
        monkeypatch.setenv(PASSWORD, password)
        return cli.main(["--hiveserver2", address, "--auth", auth, "--username", user, "--timeout", "60", *argv])

    ann, question = ldap.USERS["ann"], ("query", f"{database}.t", "k = 0", "--count")
    assert ask_as("ann", ann, "register", report.definition.root) == 0
    assert ask_as("ann", ann, "show", f"{database}.t", "--format", "json") == 0
    assert [(one["index"], one["fresh"]) for one in json.loads(capsys.readouterr().out)] == [("k", 1)]
    assert ask_as("ann", ann, *question) == 0
    assert capsys.readouterr().out == f"{spark.table('t').where('k = 0').count()}\n"
    for user, password, auth in [("ann", "x", "LDAP"), ("bob", ann, "LDAP"), ("ann", "", "NONE")]:
        before = time.monotonic()
        assert ask_as(user, password, *question, auth=auth) == 1
        assert time.monotonic() - before < 10
        assert capsys.readouterr().err == (
            f"hive-bitmap: HiveServer2 at {address} does not accept this user or password "
            "(Error validating the login): check --auth and --username\n"
        )
