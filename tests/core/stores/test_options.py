"""Settings of stores: whose value counts, what is refused, where they come from; no text of them shows a secret."""

from __future__ import annotations

import contextvars
import pickle
import subprocess
import sys
from collections.abc import Iterator
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.stores import options
from hive_bitmap.core.stores.options import OWN, PREFIX, Options
from hive_bitmap.errors import InvalidProperty

SECRET = "wJalrXUtnFEMI"
KEY = "fs.s3a.secret.key"


def test_only_settings_that_a_store_may_need_are_kept() -> None:
    given_settings = {
        KEY: "a",
        "dfs.x": "b",
        "hadoop.security.y": "c",
        "mapreduce.z": "d",
        "fs": "e",
        f"{PREFIX}q": "f",
    }
    assert Options.of(given_settings).items == (
        ("dfs.x", "b"),
        ("fs.s3a.secret.key", "a"),
        ("hadoop.security.y", "c"),
        (f"{PREFIX}q", "f"),
    )


@given(st.sampled_from([None, "", " ", "own"]), st.sampled_from([None, "", " ", " hadoop "]))
def test_a_setting_of_the_session_goes_before_that_of_hadoop(own: str | None, hadoop: str | None) -> None:
    values = {f"{PREFIX}fs.x": own, "fs.x": hadoop}
    found = Options.of({name: value for name, value in values.items() if value is not None})
    expected = (own or "").strip() or (hadoop or "").strip()
    assert found.get("fs.x") == expected and found.get("fs.x", "default") == (expected or "default")
    told = {} if own is None and hadoop is None else {"fs.x": expected}
    assert found.with_prefixes("fs.") == told and found.with_prefixes("dfs.", "x") == {}


@pytest.mark.parametrize("name", OWN)
def test_a_number_is_positive_and_has_a_default(name: str) -> None:
    assert Options().number(name) == OWN[name][0]
    assert Options.of({PREFIX + name: " 17 "}).number(name) == 17
    assert Options.of({name: "17"}).number(name) == OWN[name][0]  # of Hadoop, which has no such setting
    for wrong in ("0", "-1", "1.5", "many", "", "1e3"):
        with pytest.raises(InvalidProperty) as error:
            Options.of({PREFIX + name: wrong}).number(name)
        assert str(error.value) == f"{PREFIX}{name} is {wrong!r}; it takes a positive number ({OWN[name][1]})"


@pytest.mark.parametrize(
    ("value", "flag"), [("true", True), ("TRUE", True), ("false", False), ("", None), ("yes", None), ("0", None)]
)
def test_a_flag_that_is_neither_true_nor_false_is_the_default(value: str, flag: bool | None) -> None:
    for default in (True, False):
        found = Options.of({"fs.x": value}).flag("fs.x", default)
        assert found == (default if flag is None else flag)


def test_the_client_of_hdfs_is_one_of_two() -> None:
    assert Options().hdfs_client == "native"
    assert Options.of({f"{PREFIX}hdfs.client": " LibHDFS "}).hdfs_client == "libhdfs"
    with pytest.raises(InvalidProperty) as error:
        _ = Options.of({f"{PREFIX}hdfs.client": "java"}).hdfs_client
    assert str(error.value) == "hive_bitmap.stores.hdfs.client is 'java'; it takes native or libhdfs"


def test_the_cache_folder_is_that_of_the_session_alone() -> None:
    assert Options.of({"fs.cache_folder": "/x"}).cache_folder == ""
    assert Options.of({f"{PREFIX}cache_folder": " /x "}).cache_folder == "/x"


def test_the_memory_of_all_caches_is_in_mb() -> None:
    assert options.memory_bytes({}) == 384 << 20
    assert options.memory_bytes({f"{PREFIX}memory": "1", f"{PREFIX}attempts": "x"}) == 1 << 20
    with pytest.raises(InvalidProperty, match="memory is 'x'; it takes a positive number"):
        options.memory_bytes({f"{PREFIX}memory": "x"})


def test_no_text_of_settings_shows_a_secret() -> None:
    found = Options.of({KEY: SECRET})
    assert found.get(KEY) == SECRET and found.with_prefixes("fs.") == {KEY: SECRET}
    assert repr(found) == str(found) == f"{found}" == "Options(1 settings)"
    assert SECRET not in repr([found]) + repr({"options": found})


def test_equal_settings_are_one_key_also_in_another_process() -> None:
    """A task gets them pickled, and looks up its open stores by them: hashes of strings differ between processes."""
    one, same = Options.of({KEY: "a", "fs.b": "c"}), Options.of({"fs.b": "c", KEY: "a"})
    assert one == same and hash(one) == hash(same) and one != Options.of({KEY: "b"})
    code = (
        "import pickle, sys; from hive_bitmap.core.stores.options import Options; "
        "found = pickle.loads(sys.stdin.buffer.read()); "
        f"print(found == Options.of({{{KEY!r}: 'a', 'fs.b': 'c'}}), "
        f"hash(found) == hash(Options.of({{{KEY!r}: 'a', 'fs.b': 'c'}})))"
    )
    hash(one)
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(one), capture_output=True, check=True)
    assert done.stdout.split() == [b"True", b"True"]


class TestCurrent:
    """Which options a thread has."""

    @pytest.fixture(autouse=True)
    def _as_before(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(options, "_latest", options._LatestSource(Options))
        token = options._source.set(None)
        yield
        options._source.reset(token)

    def test_there_are_none_to_send_until_a_store_has_asked(self) -> None:
        made = Options.of({"fs.x": "1"})
        options.use(lambda: made)
        assert options.needed() == Options()
        assert options.current() is made and options.needed() is made

    def test_the_source_is_asked_each_time(self) -> None:
        numbers = iter("12")
        options.use(lambda: Options.of({"fs.x": next(numbers)}))
        assert [options.current().get("fs.x") for _ in range(2)] == ["1", "2"]

    def test_a_thread_without_a_source_has_the_latest(self) -> None:
        first, second = Options.of({"fs.x": "1"}), Options.of({"fs.x": "2"})
        options.use(lambda: first)
        other = contextvars.Context()
        other.run(options.use, lambda: second)
        assert options.current() is first and other.run(options.current) is second
        found: list[Options] = []
        thread = Thread(target=lambda: found.append(options.current()))
        thread.start()
        thread.join()
        assert found == [second]

    def test_inside_a_block_others_count(self) -> None:
        outer, inner = Options.of({"fs.x": "1"}), Options.of({"fs.x": "2"})
        options.use(lambda: outer)
        with pytest.raises(KeyError), options.using(inner):
            assert options.current() is inner
            raise KeyError
        assert options.current() is outer
