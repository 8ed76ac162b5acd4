"""Test the documentation against the code: bytes, schemas, settings, reasons, commands, and links."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib.util
import itertools
import re
import shlex
import zlib
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pytest

import hive_bitmap
from hive_bitmap.cli import command
from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.bitmaps.keybytes import key_bytes
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import generation_names
from hive_bitmap.core.index.definition import INDEX_DATABASE, SEGMENT, Definition, schema_crc, to_properties
from hive_bitmap.core.index.manifest import FILES, SHARDS
from hive_bitmap.core.planning.settings import Settings
from hive_bitmap.core.planning.strategy import STRATEGIES, Reason
from hive_bitmap.core.selecting.offsets import result_file
from hive_bitmap.spark.metastore.jvm_settings import TRUSTED_OWNERS, TRUSTED_ROOTS

HOME = Path(__file__).parents[1]
FORMAT = (HOME / "docs/format.md").read_text()
PAGES = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "bench/README.md",
    *sorted(path.relative_to(HOME).as_posix() for path in (HOME / "docs").rglob("*.md")),
]
GUIDE = "".join((HOME / page).read_text() for page in PAGES if page.startswith("docs/guide/"))
EXAMPLES = re.findall(
    r"The block has (\d+) rows, and the rows ([\d, -]+) hold the key:\n\n(.*?)\n\n", FORMAT, re.DOTALL
)
_site = importlib.util.spec_from_file_location("site_of_the_pages", HOME / "scripts/site.py")
assert _site is not None and _site.loader is not None
site = importlib.util.module_from_spec(_site)
_site.loader.exec_module(site)
# Other commands in the shell examples of the pages.
OTHER_PROGRAMS = {"export"}


def rows_of(text: str) -> list[int]:
    spans = [span.split("-") for span in text.split(", ")]
    return [row for span in spans for row in range(int(span[0]), int(span[-1]) + 1)]


def stored_of(cell: str) -> list[bytes | list[int]]:
    return [ast.literal_eval(v) if v[0] == "[" else bytes.fromhex(v) for v in re.findall("`(.*?)`", cell)]


def cases() -> list[tuple[int, list[int], str, list[bytes | list[int]]]]:
    return [
        (int(n), rows_of(rows), encoding, stored_of(cell))
        for n, rows, table in EXAMPLES
        for encoding, cell in re.findall(r"\| `(\w+)` \| (.*) \|", table)
    ]


def test_the_format_has_two_examples_of_each_encoding() -> None:
    assert [encoding for _, _, encoding, _ in cases()] == [*ENCODINGS] * 2


@pytest.mark.parametrize(("n", "rows", "encoding", "stored"), cases())
def test_the_bytes_of_the_examples(n: int, rows: list[int], encoding: str, stored: list[bytes | list[int]]) -> None:
    codes = np.zeros(n, np.uint8)
    codes[rows] = 1
    columns = ENCODINGS[encoding].encode(key_bytes(codes)[1])
    assert [column[1].as_py() for column in columns] == stored
    bits = np.zeros((n + 7) // 8, np.uint8)
    read = [pa.array([value], field.type) for value, field in zip(stored, ENCODINGS[encoding].FIELDS, strict=True)]
    ENCODINGS[encoding].decode_into(bits, read, np.array([0]), np.array([n]))
    assert np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist() == rows


def test_the_columns_of_each_encoding() -> None:
    said = dict(re.findall(r"^### `(\w+)`: (.*)$", FORMAT, re.MULTILINE))
    sql = {pa.binary(): "binary", pa.list_(pa.int32()): "array<int>", pa.list_(pa.int64()): "array<bigint>"}
    assert said == {
        name: ", ".join(f"`{field.name} {sql[field.type]}`" for field in encoding.FIELDS)
        for name, encoding in ENCODINGS.items()
    }


def test_the_columns_of_the_manifest() -> None:
    table = FORMAT.partition("**`files.parquet`**")[2].partition("**`shards.parquet`**")[0]
    said = [
        name for names in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", names)
    ]
    assert said == FILES.names
    shards = FORMAT.partition("**`shards.parquet`**")[2].partition("**`checksums`**")[0]
    assert re.findall(r"`(\w+)`", shards) == SHARDS.names


def test_the_properties_of_an_index_table() -> None:
    definition = Definition(
        name="i",
        database="db",
        table="t",
        columns=(Column("origin", "string"), Column("n", "int")),
        partitioned_by=(Column("day", "date"),),
    )
    said = re.findall(r"^\| `(hive_bitmap\.\w+)` \|", FORMAT, re.MULTILINE)
    assert sorted(said) == sorted({*to_properties(definition), "hive_bitmap.features"})


def test_names_and_sums() -> None:
    assert re.fullmatch(r"generation-\d{8}T\d{6}-[0-9a-f]{8}", generation_names.new_name())
    assert generation_names.empty_folder("r") == "r/empty" and SEGMENT.name == "hive_bitmap_segment"
    columns = [Column("A", "int"), Column("at", "timestamp")]
    assert schema_crc(columns, "UTC") == zlib.crc32(b'["UTC", ["a", "int"], ["at", "timestamp"]]')
    assert schema_crc(columns[:1], "UTC") == zlib.crc32(b'["", ["a", "int"]]')


def test_the_result_file() -> None:
    [said] = re.findall(r"^```\n(file:.*)\n```$", FORMAT, re.MULTILINE)
    assert said.encode().decode("unicode_escape").encode() == result_file({"file:/w/t/a b": [128, 4]})


def fenced(page: str, *languages: str) -> list[str]:
    return re.findall(rf"```(?:{'|'.join(languages)})\n(.*?)```", (HOME / page).read_text(), re.DOTALL)


def shell_lines() -> list[tuple[str, str]]:
    lines = [(page, line) for page in PAGES for block in fenced(page, "sh", "console") for line in block.splitlines()]
    return [(page, line.removeprefix("$ ")) for page, line in lines if line.startswith("$ ")]


@pytest.mark.parametrize(("page", "line"), shell_lines())
def test_commands_in_the_pages_exist(page: str, line: str) -> None:
    program, *arguments = shlex.split(line, comments=True)
    if program == "make":
        targets = re.findall(r"^(\w+):", (HOME / "Makefile").read_text(), re.MULTILINE)
        assert [a for a in arguments if "=" not in a and a not in targets] == []
    elif program == "hive-bitmap":
        with command.make_context("hive-bitmap", arguments, resilient_parsing=False) as context:
            name, chosen, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert name is not None and chosen is not None
            chosen.make_context(name, rest, parent=context).close()
    else:
        assert program in OTHER_PROGRAMS


@pytest.mark.parametrize("language", ["crontab", "python"])
def test_commands_in_schedules_exist(language: str) -> None:
    blocks = fenced("docs/guide/automation.md", language)
    lines = [line for block in blocks for line in re.findall(r"/bin/hive-bitmap ([^\">\n]*)", block)]
    assert lines
    for line in lines:
        with command.make_context("hive-bitmap", shlex.split(line)) as context:
            name, chosen, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert name is not None and chosen is not None
            chosen.make_context(name, rest, parent=context).close()


@pytest.mark.parametrize("page", PAGES)
def test_python_in_the_pages_compiles_and_uses_existing_names(page: str) -> None:
    for block in fenced(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hive_bitmap":
                assert hasattr(hive_bitmap, node.attr), node.attr


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: its headings, as GitHub and MkDocs convert them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_in_the_pages_have_targets(page: str) -> None:
    text = re.sub(r"```.*?```", "", (HOME / page).read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        if "://" not in target:
            there = (HOME / page).parent / target if target else HOME / page
            assert there.is_file(), target
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_the_site_has_every_page_once() -> None:
    shown = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (HOME / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [site.OUTSIDE.get(page, page.removeprefix("docs/")) for page in PAGES]
    assert sorted(shown) == sorted([*pages, site.NOTEBOOK.replace(".ipynb", ".md")])


def test_links_are_turned_to_the_site() -> None:
    assert doctest.testmod(site).failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_a_blank_line_stands_before_every_list_and_table(page: str) -> None:
    """MkDocs needs the blank line to recognise a list or table, GitHub does not."""
    text = re.sub(r"```.*?```", "", (HOME / page).read_text(), flags=re.DOTALL)
    begins = re.compile(r"(\* |\d+\. |\|)")
    for before, line in itertools.pairwise(text.splitlines()):
        goes_on = not before or begins.match(before) or before.startswith("  ")
        assert goes_on or not begins.match(line), line
        assert not before.startswith("  ") or not line.startswith("|"), line


def test_the_api_page_has_every_name() -> None:
    said = re.findall(r"^::: hive_bitmap\.(\w+)$", (HOME / "docs/api.md").read_text(), re.MULTILINE)
    assert sorted(set(said) - {"errors"}) == sorted(hive_bitmap.__all__)


def first_cells(page: str, heading: str) -> list[str]:
    """Return the code in the first column of the first table below a heading."""
    below = (HOME / page).read_text().partition(f"\n## {heading}\n")[2]
    [table] = re.findall(r"(?:^\|.*\n)+", below, re.MULTILINE)[:1]
    return re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)


def test_the_closed_lists_of_the_guide_are_those_of_the_code() -> None:
    assert first_cells("docs/guide/queries.md", "EXPLAIN") == [reason.value for reason in Reason]
    assert sorted(first_cells("docs/guide/queries.md", "Strategies")) == sorted(STRATEGIES)
    settings = {f"hive_bitmap.{field.name}" for field in dataclasses.fields(Settings)}
    assert set(first_cells("docs/guide/reference.md", "Settings of a session")) == {
        *settings,
        "hive_bitmap.planning_seconds",  # of the optimizer rule, in Java
        TRUSTED_OWNERS,
        TRUSTED_ROOTS,
        INDEX_DATABASE,
    }


def texts_of_the_code() -> str:
    """Return all strings of the package, a line each; `\\0` stands for what is filled in."""
    texts = []
    for path in (HOME / "hive_bitmap").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(v.value if isinstance(v, ast.Constant) else "\0" for v in node.values))  # type: ignore[misc]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(text.replace("\n", " ") for text in texts)


def test_troubleshooting_has_each_reason_and_quotes_messages_as_they_are() -> None:
    page = "docs/guide/troubleshooting.md"
    assert first_cells(page, "Explain says that a scan was left alone") == [reason.value for reason in Reason]
    tables = re.findall(r"^\| message \|.*\n\|-.*\n((?:\|.*\n)+)", (HOME / page).read_text(), re.MULTILINE)
    quoted = [found for table in tables for found in re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)]
    assert len(quoted) == sum(table.count("\n") for table in tables) > 10
    texts = texts_of_the_code()
    unknown = [said for said in quoted if not re.search(".*".join(map(re.escape, said.split(".."))), texts)]
    assert unknown == []


def test_every_command_is_in_the_guide() -> None:
    said = re.findall(r"hive-bitmap (?:--\S+ \S+ )*([\w-]+)", GUIDE)
    assert [name for name in command.commands if name not in said] == []


def test_no_option_of_the_guide_is_made_up() -> None:
    known = {
        o
        for c in [command, *command.commands.values()]
        for p in c.params
        if isinstance(p, click.Option)
        for o in p.opts
    }
    said = set(re.findall(r"`(--[a-z0-9-]+)", GUIDE + (HOME / "README.md").read_text()))
    of_spark_submit = {"--archives", "--py-files"}
    assert said - known - of_spark_submit - {"--help", "--version"} == set()
