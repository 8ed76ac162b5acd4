"""The program as a shell sees it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hive_bitmap.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls `hive-bitmap` with some arguments: its status, its output and its error output."""

    def call(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return (main(argv), *capsys.readouterr())

    return call
