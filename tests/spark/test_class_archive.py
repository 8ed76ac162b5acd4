"""The archive of classes: when a JVM starts from it, when one is made, and that a damaged one does no harm."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from hive_bitmap.spark import archive_making, class_archive, java
from tests.programs import run_program

CONFIGURATION = ("SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE")
START = """
import sys
from pathlib import Path
import hive_bitmap
from hive_bitmap.spark import java
with java.started_with(f"-Xlog:class+load:file={sys.argv[2]}"):
    spark = hive_bitmap.session(sys.argv[1], master="local[1]")
print(spark.range(7).count())
"""
MAKE = """
from hive_bitmap.spark import archive_making, class_archive
archive_making.make(class_archive.place())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in CONFIGURATION:
        monkeypatch.delenv(name, raising=False)
    found = tmp_path / "archives"
    monkeypatch.setenv(class_archive.VARIABLE, str(found))
    return found


@pytest.fixture
def base(folder: Path) -> Path:
    """Where the archive lies; its folder is made."""
    folder.mkdir(mode=0o700)
    found = class_archive.place()
    assert found is not None and found.parent == folder
    return found


@pytest.fixture
def archive(base: Path) -> Path:
    path = class_archive.named(base, 5)
    path.write_bytes(b"12345")
    path.chmod(0o600)
    return path


def test_a_start_takes_the_archive(archive: Path) -> None:
    assert class_archive.options()[0] == f'"-XX:SharedArchiveFile={archive}"'


def test_without_one_java_has_no_options(base: Path) -> None:
    assert class_archive.options() == ()


def test_a_part_of_an_archive_is_none(archive: Path) -> None:
    archive.write_bytes(b"1234")
    assert class_archive.options() == ()


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_what_others_may_write_is_none(archive: Path, mode: int) -> None:
    archive.chmod(mode)
    assert class_archive.options() == ()
    archive.chmod(0o600)
    archive.parent.chmod(0o700 | mode)
    assert class_archive.options() == ()


def test_another_java_has_another_archive(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "java"
    for name in ("bin/java", "lib/modules"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("")
        (home / name).chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    other = class_archive.place()
    assert other not in (None, base)
    (home / "lib/modules").write_text("an update in the same place")
    assert class_archive.place() not in (None, base, other)
    (home / "lib/modules").unlink()
    assert class_archive.place() is None


@pytest.mark.parametrize(
    ("variable", "value"), [(class_archive.VARIABLE, ""), ("SPARK_CONF_DIR", "/c"), ("SPARK_REMOTE", "sc://h")]
)
def test_where_none_can_be(archive: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    assert class_archive.place() is None and class_archive.options() == ()


def test_a_spark_with_a_folder_of_settings_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark/jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    assert class_archive.place() is not None
    (tmp_path / "spark/conf").mkdir()
    assert class_archive.place() is None


def test_the_user_s_cache_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(class_archive.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    found = class_archive.place()
    assert found is not None and found.parent == tmp_path / "c/hive-bitmap"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The processes that were started."""
    found: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: found.append(command))
    return found


def test_one_attempt_a_day(folder: Path, started: list[list[str]]) -> None:
    archive_making.make_in_background()
    archive_making.make_in_background()
    assert [command[-1] for command in started] == [str(class_archive.place())]
    [note] = folder.iterdir()
    yesterday = time.time() - archive_making.DAY - 9
    os.utime(note, (yesterday, yesterday))
    archive_making.make_in_background()
    assert len(started) == 2


def test_what_is_there_is_not_made_again(archive: Path, started: list[list[str]]) -> None:
    archive_making.make_in_background()
    assert started == []


def test_a_folder_that_cannot_be_made(folder: Path, started: list[list[str]]) -> None:
    folder.write_text("a file")
    archive_making.make_in_background()
    assert started == [] and class_archive.options() == ()


def test_options_are_those_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=theirs")
    with java.started_with("-Da=ours", "-Db=1"):
        assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=ours -Db=1 -Da=theirs"  # Java takes the last
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=theirs"
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    with java.started_with("-Da=ours"):
        pass
    assert "SPARK_SUBMIT_OPTS" not in os.environ


@pytest.mark.servers
def test_spark_starts_from_the_archive_and_beside_a_damaged_one(folder: Path, base: Path, tmp_path: Path) -> None:
    made = run_program(MAKE, folder=tmp_path)
    assert (made.returncode, made.stdout) == (0, "")
    [archive] = folder.iterdir()

    def archived() -> int:
        """Start a Spark; how many classes came from the archive that we made."""
        log = tmp_path / "loaded.log"
        done = run_program(START, tmp_path / "w", log, folder=tmp_path)
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
        return log.read_text().count("shared objects file (top)")

    assert archived() > 10_000
    content = bytearray(archive.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20_000_000] = os.urandom(20_000_000)
    archive.write_bytes(content)
    assert archived() == 0
