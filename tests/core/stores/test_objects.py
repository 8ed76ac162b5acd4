"""Object stores through obstore, over its store in memory: names instead of folders, entity tags, errors of a line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import LocalStore, MemoryStore, S3Store

from hive_bitmap.core import stores
from hive_bitmap.core.stores import requests
from hive_bitmap.core.stores.objects import IN_MEMORY, Objects, client_options, opening, retries
from hive_bitmap.core.stores.options import Options
from hive_bitmap.core.stores.ranged import AHEAD, TAIL
from hive_bitmap.core.stores.store import FileStatus, Listing
from hive_bitmap.errors import FileChanged, StoreError

ROOT = "s3a://b"


@pytest.fixture
def client() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def store(client: MemoryStore) -> Objects:
    return Objects(client, "see fs.s3a", parallel=2)


def put(store: Objects, path: str, content: bytes) -> FileStatus:
    with store.open_output(path) as sink:
        sink.write(content)
    return store.status(path)


def test_a_listing_is_of_one_folder(store: Objects, client: MemoryStore) -> None:
    for name in ("w/b", "w/a", "w/sub/c", "w/k=1%2F/d", "wide", "v/x"):
        put(store, f"{ROOT}/{name}", name.encode())
    found = store.listing(f"{ROOT}/w/")
    assert [file.path for file in found.files] == [f"{ROOT}/w/a", f"{ROOT}/w/b"]
    assert found.folders == ["k=1%2F", "sub"]
    assert found.files[0] == store.status(f"{ROOT}/w/a")
    assert store.listing(f"{ROOT}/").folders == ["v", "w"]
    with pytest.raises(FileNotFoundError, match=r"^no folder s3a://b/none$"):
        store.listing(f"{ROOT}/none")


def test_an_empty_store_has_a_root(store: Objects) -> None:
    found = store.listing(f"{ROOT}/")
    assert (list(found.files), list(found.folders)) == ([], [])


@pytest.mark.parametrize(("count", "asked"), [(0, 1), (999, 1), (1000, 2), (1001, 2), (2000, 3)])
def test_each_thousand_names_of_a_listing_is_a_request(
    store: Objects, client: MemoryStore, count: int, asked: int
) -> None:
    for number in range(count):
        obstore.put(client, f"w/{number}", b"")
    with requests.measured() as made:
        store.listing(f"{ROOT}/w" if count else f"{ROOT}/")
    assert made.requests.by_kind == {requests.LIST: asked}


NAMES = st.lists(st.sampled_from(["a", "b", "p=1", "p=1%2F", "é #"]), min_size=1, max_size=4).map("/".join)


@settings(max_examples=200)
@given(keys=st.dictionaries(NAMES, st.sampled_from([b"", b"x"])), folders=st.sets(NAMES, min_size=1))
def test_folders_that_are_listed_together_are_as_each_alone(keys: dict[str, bytes], folders: set[str]) -> None:
    store = Objects(MemoryStore(), "", 2)
    for key, content in keys.items():
        put(store, f"{ROOT}/w/{key}", content)
    paths = [f"{ROOT}/w/{folder}" for folder in folders]
    alone = {path: listed_alone(store, path) for path in paths}
    together = store.listings(f"{ROOT}/w", paths)
    assert together == {path: alone[path] for path in together}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "_store", lambda path: store)
        patch.setattr(stores, "MANY_FOLDERS", 1)
        assert stores.listings([*paths, paths[0], f"{paths[0]}/"]) == [*alone.values(), *[alone[paths[0]]] * 2]


def listed_alone(store: Objects, folder: str) -> Listing | None:
    try:
        return store.listing(folder)
    except FileNotFoundError:
        return None


def test_folders_among_many_others_are_not_listed_together(store: Objects, client: MemoryStore) -> None:
    for number in range(1500):
        obstore.put(client, f"w/other/{number}", b"x")
    for number in range(20):
        obstore.put(client, f"w/p={number}/file", b"x")
    folders = [f"{ROOT}/w/p={number}" for number in range(20)]
    assert store.listings(f"{ROOT}/w", folders) == {}
    obstore.delete(client, [f"w/other/{number}" for number in range(1490)])
    with requests.measured() as made:
        together = store.listings(f"{ROOT}/w", folders)
    assert together == {folder: store.listing(folder) for folder in folders}
    assert made.requests.by_kind == {requests.LIST: 1}


@pytest.mark.parametrize(
    ("path", "there"),
    [("/w", True), ("/w/a", True), ("/w/a/", True), ("/w/b", False), ("/", True), ("/w/a/b", False)],
)
def test_what_exists_is_an_object_or_has_some_below_it(store: Objects, path: str, there: bool) -> None:
    put(store, f"{ROOT}/w/a", b"1")
    assert store.exists(ROOT + path) is there


SIZES = [0, 1, TAIL - 1, TAIL, TAIL + 1, AHEAD, AHEAD + 1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("known", [False, True])
def test_an_open_object_is_read_as_it_was_written(store: Objects, size: int, known: bool) -> None:
    content = bytes(number % 251 for number in range(size))
    status = put(store, f"{ROOT}/a", content)
    with requests.measured() as made, store.open_input(f"{ROOT}/a", status if known else None) as source:
        assert (source.size(), source.read()) == (size, content)
    assert made.requests.bytes_read == size
    assert store.status_and_tail(f"{ROOT}/a") == (status, content[-TAIL:])


def test_a_small_object_that_is_known_is_read_by_one_request(store: Objects) -> None:
    status = put(store, f"{ROOT}/a", bytes(AHEAD))
    with requests.measured() as made, store.open_input(f"{ROOT}/a", status) as source:
        source.read()
    assert made.requests.by_kind == {requests.READ: 1}


@settings(max_examples=60)
@given(content=st.binary(min_size=1, max_size=40), data=st.data())
def test_a_range_is_that_of_the_content_or_an_error(content: bytes, data: st.DataObject) -> None:
    store = Objects(MemoryStore(), "", 1)
    put(store, f"{ROOT}/a", content)
    start, size = data.draw(st.integers(0, 45)), data.draw(st.integers(1, 45))
    if start + size <= len(content):
        assert store.read_range(f"{ROOT}/a", start, size) == content[start : start + size]
        return
    beyond = start >= len(content)  # which this store answers with an error of its own
    with pytest.raises(StoreError if beyond else OSError) as raised:
        store.read_range(f"{ROOT}/a", start, size)
    if not beyond:
        assert str(raised.value) == f"s3a://b/a has no {size} bytes from {start} on"


def test_an_object_that_is_replaced_while_it_is_read(store: Objects) -> None:
    status = put(store, f"{ROOT}/a", bytes(AHEAD + 1))
    with store.open_input(f"{ROOT}/a", None) as source:
        put(store, f"{ROOT}/a", bytes(AHEAD + 1))
        with pytest.raises(FileChanged, match=r"^s3a://b/a was replaced while it was read: run the query again$"):
            source.read()
    with pytest.raises(FileChanged):
        store.open_input(f"{ROOT}/a", status)


def test_an_upload_is_there_as_a_whole_or_not_at_all(store: Objects) -> None:
    sink = store.open_output(f"{ROOT}/a")
    sink.write(b"ab")
    sink.write(memoryview(b"cd"))
    assert sink.tell() == 4 and not store.exists(f"{ROOT}/a")
    with requests.measured() as made:
        sink.close()
        sink.close()  # only once
    assert (made.requests.by_kind, made.requests.bytes_written) == ({requests.WRITE: 1}, 4)
    assert store.read_whole(f"{ROOT}/a", 4) == b"abcd"
    with pytest.raises(OSError, match=r"^it has 4 bytes, more than 3$"):
        store.read_whole(f"{ROOT}/a", 3)

    def fail() -> None:
        with store.open_output(f"{ROOT}/lost") as begun:
            begun.write(b"x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not store.exists(f"{ROOT}/lost")
    store.replace_file(f"{ROOT}/a", b"e")
    assert store.read_whole(f"{ROOT}/a", 4) == b"e"


def test_an_upload_that_does_not_fit_into_memory(store: Objects) -> None:
    with store.open_output(f"{ROOT}/a") as sink:
        for _ in range(2):
            sink.write(bytes(IN_MEMORY // 2 + 1))
    assert store.status(f"{ROOT}/a").size == IN_MEMORY + 2


def test_objects_that_are_deleted(store: Objects) -> None:
    for name in "abcd":
        put(store, f"{ROOT}/w/{name}", b"")
    store.delete_file(f"{ROOT}/w/a")
    with requests.measured() as made:
        store.delete_files(f"{ROOT}/w", ["b", "c"], ROOT)
        store.delete_files(f"{ROOT}/w", [], ROOT)
    assert made.requests.by_kind == {requests.DELETE: 1}
    assert [file.path for file in store.listing(f"{ROOT}/w").files] == [f"{ROOT}/w/d"]


@pytest.mark.parametrize(
    ("target", "copied"), [("s3a://b/new", True), ("s3a://other/new", False), ("s3://b/new", False), ("/new", False)]
)
def test_copies_stay_inside_the_store(store: Objects, client: MemoryStore, target: str, copied: bool) -> None:
    put(store, f"{ROOT}/a", b"content")
    with requests.measured() as made:
        assert store.copy(f"{ROOT}/a", target) is copied
    assert made.requests.total == copied
    assert store.exists(f"{ROOT}/new") is copied
    assert not copied or store.read_whole(target, 9) == b"content"


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, path: store.status(path),
        lambda store, path: store.status_and_tail(path),
        lambda store, path: store.open_input(path, None),
        lambda store, path: store.read_range(path, 0, 1),
        lambda store, path: store.copy(path, f"{ROOT}/z"),
    ],
)
def test_an_object_that_is_not_there(store: Objects, ask: Callable[[Objects, str], object]) -> None:
    with pytest.raises(FileNotFoundError, match=r"^no such file: s3a://b/x y$"):
        ask(store, f"{ROOT}/x y")


def test_an_error_of_the_store_says_which_settings_to_see(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    store = Objects(LocalStore(tmp_path), "see fs.s3a", parallel=1)
    for _ in range(2):  # the slot of a request that failed is free again
        with pytest.raises(StoreError) as raised:
            put(store, f"{ROOT}/w", b"")  # a folder of this machine
        said = str(raised.value)
        assert said.startswith("the store of s3a://b/w fails: ") and said.endswith(" (see fs.s3a)")
        assert "\n" not in said


def test_a_constructor_that_fails() -> None:
    with (
        # only the first line of the error
        pytest.raises(StoreError, match=r"^bucket b cannot be opened: no key \(see the guide\)$"),
        opening("bucket b", "see the guide"),
    ):
        raise ValueError("no key\nat line 7")
    with pytest.raises(KeyError), opening("bucket b", ""):
        raise KeyError


def test_limits_of_the_client() -> None:
    given = Options.of({})
    client, again = client_options(given, allow_http=True), retries(given)
    assert client["allow_http"] is True and client["timeout"] == "15m"
    assert client["read_timeout"] == timedelta(seconds=given.number("timeout"))
    assert again["max_retries"] == given.number("attempts") - 1 and again["retry_timeout"] == timedelta(minutes=1)
    S3Store("b", region="r", client_options=client, retry_config=again)  # it knows all of them


def test_a_status_has_whole_seconds_and_a_bare_tag(client: MemoryStore, store: Objects) -> None:
    before = datetime.now(timezone.utc).timestamp()
    found = put(store, f"{ROOT}/a", b"12")
    assert (found.path, found.size) == (f"{ROOT}/a", 2)
    assert found.mtime_ms % 1000 == 0 and abs(found.mtime_ms / 1000 - before) < 60
    assert found.etag == (obstore.head(client, "a")["e_tag"] or "").strip('"') != ""
