"""The client of HDFS, by a stand-in for hdfs-native's that keeps a tree in memory and refuses what a name node would.

That the package and a cluster behave as the stand-in does, is for the servers of tests/stores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import hdfs_native
import pytest

from hive_bitmap.core.stores import FileStatus, requests
from hive_bitmap.core.stores.access import Access
from hive_bitmap.core.stores.hdfs import ADVICE, Hdfs, all_entries, is_transient, open_cluster
from hive_bitmap.core.stores.options import PREFIX, Options
from hive_bitmap.errors import StoreError

ROOT = "hdfs://nn:8020"
NO_ACLS = "The ACL operation has been rejected. ACLs are disabled by setting dfs.namenode.acls.enabled to false."


@dataclass(frozen=True)
class Entry:
    """A file, or a folder if it has no content: what hdfs-native tells of it."""

    path: str
    content: bytes | None = None
    permission: int = 0o755
    group: str = "g"
    modification_time: int = 5

    @property
    def isdir(self) -> bool:
        return self.content is None

    @property
    def length(self) -> int:
        return len(self.content or b"")


@dataclass(frozen=True)
class Listed:
    """An entry of a list as the package gives it."""

    type: str
    scope: str
    permissions: str
    name: str | None


@dataclass(frozen=True)
class Acl:
    entries: list[Any]
    permission: int
    group: str
    sticky: bool


class Reader:
    def __init__(self, content: bytes, given: int | None) -> None:
        self._content, self._given = content, given

    def __len__(self) -> int:
        return len(self._content)

    def read_range(self, start: int, size: int) -> bytes:
        assert size > 0 and start + size <= len(self), "hdfs-native panics"
        return self._content[start : start + size][: self._given]


@dataclass
class Cluster:
    """A name node. `fails` are the errors of the next requests; `groups` those that this user may give to files."""

    entries: dict[str, Entry] = field(default_factory=lambda: {"/": Entry("/")})
    acls: dict[str, list[Any]] | None = None
    fails: list[Exception] = field(default_factory=list)
    groups: tuple[str, ...] = ("g", "h")
    given: int | None = None  # bytes that a read gives at most
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def _asked(self, *request: Any) -> None:
        self.asked.append(request)
        if self.fails:
            raise self.fails.pop(0)

    def get_file_info(self, path: str) -> Entry:
        self._asked("info", path)
        return self._at(path)

    def _at(self, path: str) -> Entry:
        if path not in self.entries:
            raise FileNotFoundError(f"File not found: {path}")
        return self.entries[path]

    def list_status(self, path: str) -> list[Entry]:
        self._asked("list", path)
        found = self._at(path)
        inside = [one for name, one in self.entries.items() if name != path and str(PurePosixPath(name).parent) == path]
        return inside if found.isdir else [found]

    def read(self, path: str) -> Reader:
        self._asked("read", path)
        return Reader(self._at(path).content or b"", self.given)

    def create(self, path: str, options: Any) -> Sink:
        self._asked("create", path, options.permission)
        self._make_parents(path, 0o755)
        self.entries[path] = Entry(path, b"", options.permission)
        return Sink(self, path)

    def mkdirs(self, path: str, mode: int, parents: bool) -> None:
        self._asked("mkdirs", path, mode)
        self._make_parents(path, mode)
        self.entries.setdefault(path, Entry(path, None, mode))

    def _make_parents(self, path: str, mode: int) -> None:
        for above in PurePosixPath(path).parents:
            self.entries.setdefault(str(above), Entry(str(above), None, mode))

    def delete(self, path: str, recursive: bool = False) -> bool:
        self._asked("delete", path)
        return self.entries.pop(path, None) is not None

    def get_acl_status(self, path: str) -> Acl:
        self._asked("acl", path)
        if self.acls is None:
            raise RuntimeError(NO_ACLS)
        found = self._at(path)
        return Acl(self.acls.get(path, []), found.permission & 0o777, found.group, bool(found.permission & 0o1000))

    def set_owner(self, path: str, group: str) -> None:
        self._asked("group", path, group)
        if group not in self.groups:
            raise RuntimeError("AccessControlException: User does not belong to " + group)
        self.entries[path] = replace(self.entries[path], group=group)

    def set_acl(self, path: str, entries: list[Any]) -> None:
        self._asked("set acl", path)
        assert self.acls is not None
        self.acls[path] = entries

    def remove_acl(self, path: str) -> None:
        self._asked("remove acl", path)
        assert self.acls is not None
        del self.acls[path]

    def set_permission(self, path: str, mode: int) -> None:
        self._asked("mode", path, mode)
        self.entries[path] = replace(self.entries[path], permission=mode)


class Sink:
    def __init__(self, cluster: Cluster, path: str) -> None:
        self._cluster, self._path = cluster, path

    def write(self, content: bytes) -> int:
        self._cluster._asked("write", self._path, content)
        found = self._cluster.entries[self._path]
        self._cluster.entries[self._path] = replace(found, content=(found.content or b"") + content)
        return len(content)

    def close(self) -> None:
        self._cluster._asked("close", self._path)


@pytest.fixture(autouse=True)
def _do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "FIRST_WAIT", 0.0)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def store(cluster: Cluster) -> Hdfs:
    return Hdfs(cluster, attempts=3, parallel=2)


def file(cluster: Cluster, path: str, content: bytes = b"0123456789", mode: int = 0o644) -> None:
    cluster.mkdirs(str(PurePosixPath(path).parent), 0o755, True)
    cluster.entries[path] = Entry(path, content, mode)
    cluster.asked.clear()


def test_a_file_and_a_folder(cluster: Cluster, store: Hdfs) -> None:
    file(cluster, "/d/f")
    assert store.status(f"{ROOT}/d/f") == FileStatus(f"{ROOT}/d/f", 10, 5, "")
    assert store.status(f"{ROOT}/d/f/") == FileStatus(f"{ROOT}/d/f/", 10, 5, "")
    assert store.exists(f"{ROOT}/d") and store.exists(f"{ROOT}/") and not store.exists(f"{ROOT}/gone")
    for path, message in (("/d", f"not a file but a folder: {ROOT}/d"), ("/gone", f"no such file: {ROOT}/gone")):
        with pytest.raises(FileNotFoundError) as raised:
            store.status(ROOT + path)
        assert str(raised.value) == message


@pytest.mark.parametrize("folder", [f"{ROOT}/d", f"{ROOT}/d/"])
def test_the_content_of_a_folder_is_sorted_and_under_the_path_that_was_asked(
    cluster: Cluster, store: Hdfs, folder: str
) -> None:
    for path in ("/d/b", "/d/a b", "/d/z/f", "/d/y/f"):
        file(cluster, path)
    found = store.listing(folder)
    assert [one.path for one in found.files] == [f"{ROOT}/d/a b", f"{ROOT}/d/b"] and found.folders == ["y", "z"]


def test_a_file_is_no_folder_though_a_folder_may_contain_one_of_its_name(cluster: Cluster, store: Hdfs) -> None:
    file(cluster, "/d/d")
    assert store.listing(f"{ROOT}/d").names == ["d"]
    with pytest.raises(NotADirectoryError, match=f"not a folder but a file: {ROOT}/d/d"):
        store.listing(f"{ROOT}/d/d")
    with pytest.raises(FileNotFoundError, match=f"no such file: {ROOT}/gone"):
        store.listing(f"{ROOT}/gone")


def test_parts_of_files(cluster: Cluster, store: Hdfs) -> None:
    file(cluster, "/f")
    file(cluster, "/empty", b"")
    assert store.read_range(f"{ROOT}/f", 8, 2) == b"89"
    assert store.read_range(f"{ROOT}/f", 10, 0) == b"" == store.read_range(f"{ROOT}/empty", 0, 0)
    assert store.status_and_tail(f"{ROOT}/empty")[1] == b""
    with pytest.raises(OSError, match=f"{ROOT}/f has 10 bytes, not 11"):
        store.read_range(f"{ROOT}/f", 8, 3)
    with store.open_input(f"{ROOT}/f", None) as source:
        source.seek(4)
        assert (source.size(), source.read(3), source.read()) == (10, b"456", b"789")
    assert store.read_whole(f"{ROOT}/f", 10) == b"0123456789"
    with pytest.raises(OSError, match="it has 10 bytes, more than 9"):
        store.read_whole(f"{ROOT}/f", 9)


def test_fewer_bytes_than_were_asked_for_are_an_error(cluster: Cluster, store: Hdfs) -> None:
    file(cluster, "/f")
    cluster.given = 3
    with pytest.raises(StoreError) as raised:
        store.read_range(f"{ROOT}/f", 0, 5)
    assert str(raised.value) == f"the store of {ROOT}/f fails: 3 bytes came in place of 5"


def test_what_is_written_is_complete_when_it_is_closed(cluster: Cluster, store: Hdfs) -> None:
    with requests.measured() as measured, store.open_output(f"{ROOT}/new/f") as sink:
        assert (sink.write(b"abc"), sink.write(memoryview(b"de")), sink.tell()) == (3, 2, 5)
    sink.close()  # once more, as pyarrow does
    assert cluster.entries["/new/f"].content == b"abcde"
    assert [one[0] for one in cluster.asked].count("close") == 1
    assert (measured.requests.bytes_written, measured.requests.by_kind["write"]) == (5, 4)


def test_a_file_that_is_not_written_to_its_end_is_removed(cluster: Cluster, store: Hdfs) -> None:
    with pytest.raises(ZeroDivisionError), store.open_output(f"{ROOT}/f") as sink:
        sink.write(b"abc")
        raise ZeroDivisionError
    assert "/f" not in cluster.entries and sink.closed
    with pytest.raises(ZeroDivisionError), store.open_output(f"{ROOT}/f"):
        cluster.fails = [RuntimeError("lease expired")]  # at the end of a file, which does not hide what was wrong
        raise ZeroDivisionError


@pytest.mark.parametrize("home", [f"{ROOT}/w", f"{ROOT}/u/v/w", "hdfs:/w", "hdfs:/u/w"])
@pytest.mark.parametrize(
    ("above", "folder", "plain"),
    [
        (0o755, 0o755, 0o644),
        (0o750, 0o750, 0o640),
        (0o700, 0o700, 0o600),
        (0o775, 0o775, 0o664),
        (0o1777, 0o755, 0o644),  # a sticky folder lets others add files, but not to ours
        (0o1770, 0o750, 0o640),
    ],
)
def test_what_is_made_is_as_open_as_the_folder_above(above: int, folder: int, plain: int, home: str) -> None:
    cluster, inner = Cluster(), home.removeprefix(ROOT).removeprefix("hdfs:")
    cluster.mkdirs(inner, 0o755, True)
    cluster.set_permission(inner, above)
    store = Hdfs(cluster, attempts=1, parallel=1)
    store.make_folder(f"{home}/made")
    store.replace_file(f"{home}/plain", b"")
    store.open_output(f"{home}/private", private=True).close()
    store.make_folder(f"{home}/a/b/c")  # the nearest that exists counts
    modes = {path.removeprefix(inner): one.permission for path, one in cluster.entries.items()}
    assert (modes["/made"], modes["/plain"], modes["/private"]) == (folder, plain, 0o600)
    assert modes["/a"] == modes["/a/b/c"] == folder


def test_the_top_of_a_cluster_is_not_asked_for_its_mode(cluster: Cluster, store: Hdfs) -> None:
    store.make_folder(f"{ROOT}/w")
    store.make_folder("hdfs:/v")
    assert cluster.asked == [("mkdirs", "/w", 0o755), ("mkdirs", "/v", 0o755)]


def test_a_mode_is_asked_for_once_until_one_is_set(cluster: Cluster, store: Hdfs) -> None:
    cluster.mkdirs("/w", 0o755, True)
    for name in "ab":
        store.make_folder(f"{ROOT}/w/{name}")
    assert cluster.asked.count(("info", "/w")) == 1
    store.set_access(f"{ROOT}/w", Access(0o700, "g"))
    store.make_folder(f"{ROOT}/w/c")
    assert cluster.entries["/w/c"].permission == 0o700


def test_a_new_folder_is_private_until_its_access_is_set(cluster: Cluster, store: Hdfs) -> None:
    cluster.mkdirs("/w", 0o755, True)
    store.make_new_folder(f"{ROOT}/w/plain", None)
    assert cluster.entries["/w/plain"].permission == 0o755
    store.make_new_folder(f"{ROOT}/w/shared", Access(0o750, "h"))
    made = cluster.entries["/w/shared"]
    assert (made.permission, made.group) == (0o750, "h")
    changes = [one for one in cluster.asked if one[1] == "/w/shared" and one[0] not in ("info", "acl")]
    assert changes == [("mkdirs", "/w/shared", 0o700), ("group", "/w/shared", "h"), ("mode", "/w/shared", 0o750)]
    with pytest.raises(FileExistsError, match=f"folder {ROOT}/w/plain already existed"):
        store.make_new_folder(f"{ROOT}/w/plain", None)


def test_deletion(cluster: Cluster, store: Hdfs) -> None:
    for name in "abc":
        file(cluster, f"/d/{name}")
    store.delete_file(f"{ROOT}/d/c")
    with pytest.raises(FileNotFoundError, match=f"no such file: {ROOT}/d/c"):
        store.delete_file(f"{ROOT}/d/c")
    store.delete_files(f"{ROOT}/d", ["a", "gone"], ROOT)
    store.remove_folder(f"{ROOT}/d", ROOT)
    store.remove_folder(f"{ROOT}/gone", ROOT)
    assert store.listing(f"{ROOT}/d").names == ["b"]
    store.delete_files(f"{ROOT}/d", ["b"], ROOT)
    store.remove_folder(f"{ROOT}/d", ROOT)
    assert not store.exists(f"{ROOT}/d")
    assert store.copy(f"{ROOT}/a", f"{ROOT}/b") is False


def test_the_access_of_a_cluster_without_lists_which_is_found_out_once(cluster: Cluster, store: Hdfs) -> None:
    file(cluster, "/d/f", mode=0o640)
    cluster.entries["/d"] = Entry("/d", None, 0o41777, "h")
    assert store.access(f"{ROOT}/d/f") == Access(0o640, "g")
    assert store.access(f"{ROOT}/d") == Access(0o1777, "h")
    assert [one[0] for one in cluster.asked] == ["acl", "info", "info"]


def test_the_access_of_a_cluster_with_lists() -> None:
    bob, heirs = Listed("user", "access", "rwx", "bob"), Listed("group", "default", "r-x", None)
    cluster = Cluster(acls={"/d": [heirs, bob]})
    cluster.entries["/d"] = Entry("/d", None, 0o1770)
    found = Hdfs(cluster, 1, 1).access(f"{ROOT}/d")
    assert found == Access(0o1770, "g", (("user", "access", "rwx", "bob"),), (("group", "default", "r-x", None),))
    assert [one[0] for one in cluster.asked] == ["acl"]


def test_another_error_of_a_list_does_not_mean_that_there_are_none(cluster: Cluster, store: Hdfs) -> None:
    file(cluster, "/f", mode=0o640)
    cluster.acls = {"/f": [Listed("user", "access", "r--", "bob")]}
    cluster.fails = [RuntimeError("AccessControlException")]
    assert store.access(f"{ROOT}/f") == Access(0o640, "g")
    assert store.access(f"{ROOT}/f").acl


def test_a_group_that_this_user_is_not_in_reads_nothing(cluster: Cluster, store: Hdfs) -> None:
    cluster.acls = {}
    file(cluster, "/f")
    store.set_access(f"{ROOT}/f", Access(0o754, "others", (("user", "access", "r--", "bob"),)))
    assert (cluster.entries["/f"].permission, cluster.entries["/f"].group, cluster.acls) == (0o704, "g", {})


def test_a_list_is_set_or_one_that_was_inherited_is_removed(cluster: Cluster, store: Hdfs) -> None:
    file(cluster, "/f")
    cluster.acls = {"/f": [Listed("user", "access", "rwx", "eve")]}
    store.set_access(f"{ROOT}/f", Access(0o600, "g"))
    assert cluster.acls == {} and cluster.entries["/f"].permission == 0o600
    store.set_access(f"{ROOT}/f", Access(0o640, "g", (("user", "access", "r--", "bob"),)))
    assert cluster.acls["/f"][0].permissions == "r--"
    assert [one[0] for one in cluster.asked][-2:] == ["set acl", "mode"]  # the mode last: the mask of the list


BOB, OF_GROUP = ("user", "access", "rwx", "bob"), ("group", "access", "---", None)
HEIR = ("user", "default", "r-x", "eve")
SHOWN = {BOB: "user access bob rwx", OF_GROUP: "group access None ---", HEIR: "user default eve r-x"}
USER, GROUP, OTHER = "user access None rwx", "group access None r-x", "other access None r--"


@pytest.mark.parametrize(
    ("acl", "defaults", "added"),
    [
        ((), (), [USER, GROUP, OTHER]),
        ((), (HEIR,), [USER, GROUP, OTHER]),
        ((BOB,), (), [USER, GROUP, OTHER]),
        ((BOB, OF_GROUP), (), [USER, OTHER]),  # the bits of the group are the mask, and not what the group may
        ((OF_GROUP,), (HEIR,), [USER, OTHER]),
    ],
)
def test_a_list_is_sent_with_the_three_entries_that_the_mode_is(
    acl: tuple[Any, ...], defaults: tuple[Any, ...], added: list[str]
) -> None:
    sent = all_entries(Access(0o754, "g", acl, defaults))
    shown = [f"{one.type} {one.scope} {one.name} {one.permissions}" for one in sent]
    assert shown == [*(SHOWN[one] for one in (*acl, *defaults)), *added]


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (RuntimeError("Name node is in Safe Mode"), True),
        (OSError("Connection refused"), True),
        (RuntimeError("org.apache.hadoop.ipc.StandbyException"), True),
        (RuntimeError("RetriableException"), True),
        (RuntimeError("Could not obtain block: blk_1"), True),
        (RuntimeError("channel closed"), True),
        (TimeoutError("timed out"), True),
        (RuntimeError("AccessControlException: Permission denied"), False),
        (FileNotFoundError("/connection/standby"), False),  # the path is in the message
    ],
)
def test_transient_errors(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient


def test_a_request_is_tried_again_while_errors_are_transient(cluster: Cluster, store: Hdfs) -> None:
    file(cluster, "/f")
    cluster.fails = [OSError("connection reset"), RuntimeError("safe mode")]
    with requests.measured() as measured:
        assert store.status(f"{ROOT}/f").size == 10
    assert len(cluster.asked) == 3 and measured.requests.by_kind == {"status": 1}
    cluster.fails = [OSError("connection reset")] * 3
    with pytest.raises(StoreError) as raised:
        store.status(f"{ROOT}/f")
    assert str(raised.value) == f"the store of {ROOT}/f fails: connection reset ({ADVICE})"
    assert cluster.fails == []


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RuntimeError("denied\n\tat java"), StoreError, f"the store of {ROOT}/f fails: denied ({ADVICE})"),
        (ValueError("odd"), StoreError, f"the store of {ROOT}/f fails: odd ({ADVICE})"),
        (FileNotFoundError("File /f"), FileNotFoundError, f"no such file: {ROOT}/f"),
        (RuntimeError("ParentNotDirectoryException: /"), FileNotFoundError, f"no such file: {ROOT}/f"),
        (FileExistsError("there"), FileExistsError, "there"),
        (IsADirectoryError("folder"), IsADirectoryError, "folder"),
        (NotADirectoryError("file"), NotADirectoryError, "file"),
    ],
)
def test_errors_of_the_package(
    cluster: Cluster, store: Hdfs, error: Exception, kind: type[Exception], message: str
) -> None:
    for do in (store.status, store.listing, store.delete_file, lambda path: store.read_range(path, 0, 1)):
        cluster.fails = [error]
        with pytest.raises(kind) as raised:
            do(f"{ROOT}/f")
        assert str(raised.value) == message
        assert type(raised.value) is kind and cluster.fails == []


CONF = {"fs.defaultFS": "hdfs://default:9000", "dfs.nameservices": "ns", "fs.s3a.secret.key": "hidden"}


@pytest.mark.parametrize(
    ("values", "scheme", "authority", "url"),
    [
        (CONF, "hdfs", "nn:8020", "hdfs://nn:8020"),
        (CONF, "hdfs", "", "hdfs://default:9000"),
        (CONF, "viewfs", "c", "viewfs://c"),
        (CONF, "viewfs", "", "viewfs:/ without a name node is that of fs.defaultFS, which is hdfs://default:9000"),
        ({}, "hdfs", "", "hdfs:/ without a name node is that of fs.defaultFS, which is not set"),
    ],
)
def test_a_cluster_is_opened_with_the_settings_of_hadoop(
    values: dict[str, str], scheme: str, authority: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(hdfs_native, "Client", lambda url, config: opened.append((url, config)))
    options = Options.of(values)
    if " " in url:
        with pytest.raises(StoreError) as raised:
            open_cluster(options, scheme, authority)
        assert str(raised.value) == url and not opened
        return
    open_cluster(options, scheme, authority)
    [(found, config)] = opened
    assert found == url
    assert {"fs.defaultFS", "dfs.nameservices"} <= config.keys() and "fs.s3a.secret.key" not in config
    assert config["dfs.client.failover.max.attempts"] == str(options.number("attempts"))
    assert config["dfs.client.failover.sleep.max.millis"] == "2000"


def test_the_bounds_of_the_client_are_those_of_the_configuration_if_it_has_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[dict[str, str]] = []
    monkeypatch.setattr(hdfs_native, "Client", lambda url, config: opened.append(config))
    given = {"dfs.client.failover.max.attempts": "9", "dfs.client.failover.sleep.max.millis": "7"}
    open_cluster(Options.of(given), "hdfs", "nn")
    assert {name: opened[0][name] for name in given} == given


def test_the_user_of_a_session_is_that_of_the_environment_if_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_native, "Client", lambda url, config: None)
    options = Options.of({PREFIX + "hdfs.user": "bob"})
    for before, after in ((None, "bob"), ("eve", "eve")):
        monkeypatch.setenv("HADOOP_USER_NAME", before or "")
        if before is None:
            monkeypatch.delenv("HADOOP_USER_NAME")
        open_cluster(options, "hdfs", "nn")
        assert os.environ["HADOOP_USER_NAME"] == after


@pytest.mark.parametrize("error", [RuntimeError, OSError, ValueError])
def test_a_cluster_that_cannot_be_opened(error: Callable[[str], Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(url: str, config: dict[str, str]) -> Any:
        raise error("no such host")

    monkeypatch.setattr(hdfs_native, "Client", refused)
    with pytest.raises(StoreError) as raised:
        open_cluster(Options(), "hdfs", "nn")
    assert str(raised.value) == f"hdfs://nn cannot be reached: no such host ({ADVICE})"
