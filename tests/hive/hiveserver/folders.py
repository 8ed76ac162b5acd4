"""A DB-API connection that has Hive's `dfs` command over the folders of this machine, and nothing else of a server."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

from hive_bitmap.hive.hiveserver.connection import Server


class Error(Exception):
    """The base class of errors, as PEP 249 has it."""


class Folders:
    """A connection, which is its own cursor. `denied` are patterns that are not permitted."""

    arraysize = 1

    def __init__(self, denied: str = "", settings: tuple[str, ...] = ()) -> None:
        self.statements: list[str] = []
        self._denied, self._settings = denied, settings
        self._rows: list[tuple[Any, ...]] = []

    def cursor(self) -> Folders:
        return self

    def close(self) -> None:
        pass

    @property
    def description(self) -> list[tuple[str]]:
        return [("DFS Output",)]

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        given, self._rows = self._rows[:size], self._rows[size:]
        return given

    def execute(self, statement: str) -> None:
        self.statements.append(statement)
        told = "\n".join(self._answer(statement.split(" ")))  # `dfs` splits at blanks, and prints lines
        self._rows = [(line,) for line in told.split("\n")] if told else []
        if not self._rows and statement.startswith("dfs"):
            raise Error(f"Command failed: {statement}")

    def _answer(self, words: list[str]) -> list[str]:
        if words[:1] == ["SET"]:
            return list(self._settings) or [f"{words[1]} is undefined"]
        if self._denied and re.search(self._denied, words[-1]):
            raise Error(f"Permission denied: user=ann, path={words[-1]}")
        match words:
            case ["dfs", "-stat", "%F|%b|%Y|%n", pattern]:
                return [
                    f"{'directory' if path.is_dir() else 'regular file'}|{0 if path.is_dir() else path.stat().st_size}"
                    f"|{path.stat().st_mtime_ns // 1_000_000}|{path.name}"
                    for path in _matching(pattern)
                ]
            case ["dfs", "-text", pattern]:
                found = [path.read_bytes() for path in _matching(pattern)]
                return [line for one in found for line in _unzipped(one).decode().splitlines()]
        raise Error(f"no such command: {words}")


def _unzipped(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def _matching(pattern: str) -> list[Path]:
    """The files and folders that a glob of Hadoop's matches; of special characters, those in classes and `*`."""
    folder, _, last = pattern.removeprefix("file:").rpartition("/")
    parent = Path(re.sub(r"\[\\x(..)\]", lambda found: chr(int(found[1], 16)), folder))
    said = re.compile("".join(_regex(piece) for piece in re.findall(r"\[\\x..\]|.", last)), re.DOTALL)
    there = sorted(parent.iterdir(), reverse=True) if parent.is_dir() else []
    return [path for path in there if said.fullmatch(path.name)]


def _regex(piece: str) -> str:
    if piece == "*":
        return ".*"
    assert piece not in "[]{}?\\", "a glob would take it for something else"
    return re.escape(chr(int(piece[3:5], 16)) if len(piece) > 1 else piece)


def server(denied: str = "", settings: tuple[str, ...] = ()) -> Server:
    return Server(Folders(denied, settings), "HS2")
