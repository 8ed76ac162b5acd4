"""Fixtures that run the command line in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hive_bitmap.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs `hive-bitmap` with arguments, and returns exit status, stdout and stderr."""

    def call(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return (main(argv), *capsys.readouterr())

    return call
