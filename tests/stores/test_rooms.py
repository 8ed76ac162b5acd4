"""Every operation of the room, on real stores and without Spark, with names that need care."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from hive_bitmap.core import parallel, stores
from hive_bitmap.core.index import generation
from hive_bitmap.core.stores import requests
from hive_bitmap.errors import FileChanged, StoreError
from tests.stores.conftest import BUCKET, S3, SECRET, reached
from tests.stores.servers import proxy
from tests.stores.servers import s3 as s3_server

pytestmark = [pytest.mark.stores, pytest.mark.turn(2)]
ODD = ["plain", "with blank", "ü/é", "a%20b", "p+q", "k=v", "100%", "#?*{}[]", "it's", "日本"]


@pytest.fixture(params=["s3", "hdfs"])
def folder(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "s3":
        s3: S3 = request.getfixturevalue("s3")
        with reached(s3.settings):
            yield f"s3a://{BUCKET}/{uuid4().hex}"
        s3.proxy.reset()
    else:
        with reached({}):
            yield f"{request.getfixturevalue('hdfs')}/{uuid4().hex}"


def write(path: str, content: bytes) -> None:
    with stores.open_output(path) as sink:
        sink.write(content)


@pytest.mark.parametrize("name", ODD)
def test_a_file_of_any_name_is_written_listed_read_and_deleted(folder: str, name: str) -> None:
    path, content = f"{folder}/{name}/{name.replace('/', '')} f", b"0123456789" * 100_000
    stores.make_folder(path.rpartition("/")[0])
    write(path, content)
    status = stores.status(path)
    assert (status.path, status.size) == (path, len(content))
    assert stores.listing(path.rpartition("/")[0]).files == [status]
    assert stores.listing(folder).folders == [name.partition("/")[0]]
    with stores.open_input(path) as file:
        assert file.size() == len(content) and file.read_at(12, 345_678) == content[345_678:][:12]
        file.seek(0)
        assert file.read() == content
    stores.delete_file(path)
    assert not stores.exists(path)


def test_what_is_not_there_is_not_found(folder: str) -> None:
    stores.make_folder(folder)
    write(f"{folder}/there", b"1")
    for act in (stores.status, stores.open_input, stores.listing, stores.status_and_crc):
        with pytest.raises(FileNotFoundError):
            act(f"{folder}/none")
    assert not stores.exists(f"{folder}/none")
    with pytest.raises(FileNotFoundError):
        stores.status(folder)


def test_an_empty_file_is_a_file(folder: str) -> None:
    write(f"{folder}/empty", b"")
    assert stores.status_and_crc(f"{folder}/empty")[0].size == 0
    with stores.open_input(f"{folder}/empty") as file:
        assert file.size() == 0 and file.read() == b""


def test_a_file_appears_when_it_is_closed_and_never_after_an_error(folder: str) -> None:
    stores.make_folder(folder)
    write(f"{folder}/before", b"1")
    with pytest.raises(KeyError), stores.open_output(f"{folder}/half") as sink:
        sink.write(b"some")
        raise KeyError
    assert [file.path for file in stores.listing(folder).files] == [f"{folder}/before"]


def test_files_go_by_name_folders_when_empty_and_copies_stay(folder: str) -> None:
    for name in ("a/x", "a/b/y", "a/xx", "c"):
        stores.make_folder(f"{folder}/{name}".rpartition("/")[0])
        write(f"{folder}/{name}", name.encode())
    stores.link_or_copy(f"{folder}/a/x", f"{folder}/copy")
    stores.delete_files(f"{folder}/a", ["x", "none"], folder)
    stores.remove_folder(f"{folder}/a", folder)
    assert stores.listing(f"{folder}/a").names == ["b", "xx"]
    stores.delete_files(f"{folder}/a/b", ["y"], folder)
    stores.delete_files(f"{folder}/a", ["xx"], folder)
    for path in (f"{folder}/a/b", f"{folder}/a", f"{folder}/a"):
        stores.remove_folder(path, folder)
    assert not stores.exists(f"{folder}/a")
    assert [file.path.rpartition("/")[2] for file in stores.listing(folder).files] == ["c", "copy"]
    with stores.open_input(f"{folder}/copy") as file:
        assert file.read() == b"a/x"


def test_a_small_file_is_replaced_and_read_up_to_a_bound(folder: str) -> None:
    stores.make_folder(folder)
    for content in (b"first", b"second"):
        stores.replace_file(f"{folder}/f", content)
        assert stores.read_whole(f"{folder}/f", 6) == content
    with pytest.raises(OSError, match="more than 5"):
        stores.read_whole(f"{folder}/f", 5)
    with pytest.raises(FileNotFoundError):
        stores.read_whole(f"{folder}/none", 5)


def test_a_kept_file_is_read_once(folder: str) -> None:
    content = bytes(range(256)) * 40_000
    stores.make_folder(folder)
    write(f"{folder}/f", content)
    for _ in range(2):
        with requests.measured() as measured, stores.open_immutable(f"{folder}/f", len(content)) as file:
            assert file.read_at(1000, 5_000_000) == content[5_000_000:][:1000]
            assert file.read_at(10, 5_500_000) == content[5_500_000:][:10]
    assert measured.requests.total == 0


def test_a_file_of_hdfs_is_as_private_as_the_folder_above_it(hdfs: str) -> None:
    from hdfs_native import AclEntry, Client

    client, root = Client(hdfs, {}), f"/{uuid4().hex}"
    client.mkdirs(f"{root}/table", 0o750, True)
    client.modify_acl_entries(f"{root}/table", [AclEntry("user", "access", "r-x", "bob")])
    with reached({}):
        [access] = generation.accesses([(f"{hdfs}{root}/table", f"{hdfs}{root}")])
        stores.make_new_folder(f"{hdfs}{root}/index", access)
        stores.make_new_folder(f"{hdfs}{root}/index/_manifest")
        with pytest.raises(FileExistsError, match="already existed"):
            stores.make_new_folder(f"{hdfs}{root}/index/_manifest")
        write(f"{hdfs}{root}/index/_manifest/f", b"1")
    assert oct(client.get_file_info(f"{root}/index").permission & 0o777) == "0o750"
    named = [(one.name, one.permissions) for one in client.get_acl_status(f"{root}/index").entries if one.name]
    assert named == [("bob", "r-x")]
    assert client.get_file_info(f"{root}/index/_manifest").permission & 0o007 == 0
    assert client.get_file_info(f"{root}/index/_manifest/f").permission & 0o007 == 0


def test_in_place_of_a_sticky_folder_of_hdfs_only_the_owner_writes(hdfs: str) -> None:
    from hdfs_native import AclEntry, Client

    client, root = Client(hdfs, {}), f"/{uuid4().hex}"
    client.mkdirs(f"{root}/table", 0o777, True)
    client.set_permission(f"{root}/table", 0o1777)
    client.modify_acl_entries(f"{root}/table", [AclEntry("user", "access", "rwx", "bob")])
    client.modify_acl_entries(f"{root}/table", [AclEntry("user", "default", "rwx", "bob")])
    with reached({}):
        [access] = generation.accesses([(f"{hdfs}{root}/table", f"{hdfs}{root}")])
        stores.make_new_folder(f"{hdfs}{root}/index", access)
        stores.make_new_folder(f"{hdfs}{root}/index/_manifest")
        stores.make_folder(f"{hdfs}{root}/table/root/p=1")
    for made in ("index", "index/_manifest", "table/root", "table/root/p=1"):
        assert client.get_file_info(f"{root}/{made}").permission & 0o022 == 0, made
    entries = client.get_acl_status(f"{root}/index").entries  # what bob may do is limited by the mask, the group's bits
    assert [(one.scope, one.name) for one in entries if one.name] == [("access", "bob")]


def test_folders_of_hdfs_above_a_base_folder_are_asked_for_once(hdfs: str) -> None:
    from hdfs_native import Client

    client, root = Client(hdfs, {}), f"/{uuid4().hex}"
    client.mkdirs(f"{root}/db", 0o755, True)
    client.mkdirs(f"{root}/db/t", 0o700, True)
    for number in range(3):
        client.mkdirs(f"{root}/db/t/p={number}", 0o755, True)
    base, index = [f"{hdfs}{root}/db/t/p={number}" for number in range(3)], f"{hdfs}{root}/db/i"
    with reached({}), requests.measured() as measured:
        found = generation.accesses([(one, index) for one in base])
    assert [one is not None and oct(one.mode) for one in found] == ["0o700"] * 3
    assert measured.requests.total == 4


def test_a_file_of_hdfs_is_read_by_nobody_who_may_not_read_all_its_counterparts(hdfs: str) -> None:
    from hdfs_native import AclEntry, Client

    client, root = Client(hdfs, {}), f"/{uuid4().hex}"
    client.mkdirs(f"{root}/table", 0o755, True)
    client.mkdirs(f"{root}/index", 0o755, True)
    client.modify_acl_entries(f"{root}/index", [AclEntry("user", "default", "rwx", "eve")])  # new files get it
    path, base = f"{hdfs}{root}/index/f", [f"{hdfs}{root}/table/{name}" for name in "ab"]

    def shown() -> tuple[str, list[tuple[str | None, str]]]:
        named = [(one.name, one.permissions) for one in client.get_acl_status(f"{root}/index/f").entries if one.name]
        return oct(client.get_file_info(f"{root}/index/f").permission & 0o777), named

    with reached({}):
        for name in base:
            write(name, b"1")
        client.set_permission(f"{root}/table/a", 0o644)
        client.set_permission(f"{root}/table/b", 0o640)
        with stores.open_output(path, private=True) as sink:
            assert shown()[0] == "0o600"
            sink.write(b"keys")
        assert shown()[0] == "0o600"
        stores.set_access(path, stores.access_of(base, f"{hdfs}{root}/index"))
        assert shown() == ("0o640", [])
        for name in "ab":
            client.modify_acl_entries(f"{root}/table/{name}", [AclEntry("user", "access", "r--", "bob")])
        stores.set_access(path, stores.access_of(base, f"{hdfs}{root}/index"))
        assert shown() == ("0o640", [("bob", "r--")])
        client.remove_acl(f"{root}/table/a")
        stores.set_access(path, stores.access_of([*base, f"{hdfs}{root}/gone"], f"{hdfs}{root}/index"))
        assert shown() == ("0o600", [])


def test_whoever_runs_the_driver_owns_what_others_write_for_him(hdfs: str) -> None:
    """In a process of its own, for the user of a process is told once."""
    from hdfs_native import Client

    client, root = Client(hdfs, {}), f"/{uuid4().hex}"
    client.mkdirs(root, 0o777, True)
    client.set_permission(root, 0o777)
    code = (
        "from tests.stores.conftest import reached\nfrom hive_bitmap.core import stores\n"
        f"with reached({{'hive_bitmap.stores.hdfs.user': 'bob'}}), stores.open_output('{hdfs}{root}/f') as sink:\n"
        "    sink.write(b'1')"
    )
    environment = {name: value for name, value in os.environ.items() if name != "HADOOP_USER_NAME"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=Path(__file__).parents[2])
    assert client.get_file_info(f"{root}/f").owner == "bob"


def test_objects_have_tags_in_listings_and_an_open_one_is_not_mixed_with_its_successor(s3: S3) -> None:
    path = f"s3a://{BUCKET}/{uuid4().hex}/f"
    with reached(s3.settings):
        write(path, b"1" * 3_000_000)
        [status] = stores.listing(path.rpartition("/")[0]).files
        assert status.etag and status == stores.status(path)
        with stores.open_input(path) as file:
            write(path, b"2" * 3_000_000)
            with pytest.raises(FileChanged, match="was replaced while it was read"):
                file.read()


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_three_schemes_name_one_object(s3: S3, scheme: str) -> None:
    with reached(s3.settings):
        write(f"s3a://{BUCKET}/schemes/f", b"1")
        assert stores.status(f"{scheme}://{BUCKET}/schemes/f").size == 1


def test_a_bucket_may_have_dots_and_settings_of_its_own(s3: S3) -> None:
    s3_server.make_bucket(s3.port, "my.bucket")
    own = {name.replace("fs.s3a.", "fs.s3a.bucket.my.bucket."): value for name, value in s3.settings.items()}
    with reached({**own, "fs.s3a.endpoint": "http://127.0.0.1:1"}):
        write("s3a://my.bucket/f", b"1")
        assert stores.status("s3a://my.bucket/f").size == 1


def test_no_more_requests_of_a_process_wait_than_the_setting_says(s3: S3) -> None:
    paths = [f"s3a://{BUCKET}/{uuid4().hex}/{number}" for number in range(12)]
    with reached({**s3.settings, "hive_bitmap.stores.parallel": "3"}):
        s3.proxy.reset()
        s3.proxy.delay = 0.05
        parallel.map_parallel(lambda path: write(path, b"x"), paths, len(paths))
        parallel.map_parallel(stores.status, paths, len(paths))
    assert (s3.proxy.most_at_once, len(s3.proxy.ours())) == (3, 24)
    s3.proxy.reset()
    with reached({**s3.settings, "hive_bitmap.stores.parallel": "12"}):
        s3.proxy.delay = 0.2
        parallel.map_parallel(stores.status, paths, len(paths))
    assert 3 < s3.proxy.most_at_once <= 12


def test_waiting_for_a_turn_is_no_slowness_of_the_store(s3: S3) -> None:
    """What a store is said to take for a request is what prices are made of."""
    paths = [f"s3a://{BUCKET}/{uuid4().hex}/{number}" for number in range(16)]
    with reached({**s3.settings, "hive_bitmap.stores.parallel": "1"}):
        parallel.map_parallel(lambda path: write(path, b"x"), paths, len(paths))
        s3.proxy.delay = 0.1
        stores.speed.forget()
        parallel.map_parallel(stores.status, paths, len(paths))
        taken = stores.speed_of(paths[0]).request
    assert 0.1 <= taken < 0.8


@pytest.mark.parametrize("fate", [proxy.BUSY, proxy.CUT, proxy.HALF])
def test_what_fails_once_is_asked_again(s3: S3, fate: str) -> None:
    path, content = f"s3a://{BUCKET}/{uuid4().hex}/f", b"12345" * 1000
    with reached(s3.settings):
        write(path, content)
        failures = iter([fate])
        s3.proxy.fate = lambda request: next(failures, proxy.PASS)
        with stores.open_input(path) as file:
            assert file.read() == content
    s3.proxy.reset()


@pytest.mark.parametrize("fate", [proxy.BUSY, proxy.FORBIDDEN, proxy.CUT])
def test_what_fails_always_is_one_sentence_without_secrets(s3: S3, fate: str) -> None:
    path = f"s3a://{BUCKET}/{uuid4().hex}/f"
    with reached({**s3.settings, "hive_bitmap.stores.attempts": "2"}):
        s3.proxy.fate = lambda request: fate
        with pytest.raises(StoreError) as raised:
            stores.open_input(path)
    s3.proxy.reset()
    text = str(raised.value)
    assert path in text and "fs.s3a." in text and "\n" not in text and SECRET not in text and len(text) < 600
    assert {proxy.BUSY: "SlowDown", proxy.FORBIDDEN: "AccessDenied", proxy.CUT: "error"}[fate] in text


def test_a_bucket_that_is_not_there_and_a_server_that_is_not_are_told(s3: S3) -> None:
    with reached(s3.settings), pytest.raises(StoreError, match=r"nobucket/x fails: NoSuchBucket: .* \(see fs.s3a"):
        stores.listing("s3a://nobucket/x")
    nobody = {**s3.settings, "fs.s3a.endpoint": "http://127.0.0.1:1", "hive_bitmap.stores.attempts": "2"}
    with reached(nobody), pytest.raises(StoreError, match="the store of s3a://b/x fails"):
        stores.listing("s3a://b/x")
    with reached({"hive_bitmap.stores.attempts": "2"}), pytest.raises(StoreError, match=r"fails: .*refused"):
        stores.listing("hdfs://localhost:1/x")
    with reached({}), pytest.raises(StoreError, match="without a name node"):
        stores.listing("hdfs:/x")


def test_the_default_file_system_is_that_of_the_configuration(hdfs: str) -> None:
    with reached({"fs.defaultFS": hdfs}):
        write("hdfs:/default/f", b"1")
        assert stores.status(f"{hdfs}/default/f").size == 1
