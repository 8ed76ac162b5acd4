"""A digest of a listing is that of a manifest if, and only if, each is of the very files that the other has."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import listing_digest
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.manifest import FILES
from hive_bitmap.core.stores import FileStatus

FOLDER, CRC = "file:/i/p=1/generation-20261125T000000-0a1b2c3d", 7
INDEX = Definition(name="i", database="d", table="t", columns=(Column("k", "int"),))

statuses = st.builds(
    FileStatus,
    path=st.sampled_from(["file:/t/a", "file:/t/b", 'file:/t/"é', "file:/t/\udcff"]),
    size=st.integers(1, 2),
    mtime_ms=st.integers(1, 2),
    etag=st.sampled_from(["", "1-2"]),
)
listings = st.lists(statuses, max_size=3, unique_by=lambda file: file.path)


def manifest_of(files: list[FileStatus]) -> pa.Table:
    rows = [(f.path, f.size, f.mtime_ms, f.etag) for f in files]
    names = ("path", "size", "mtime_ms", "etag")
    columns = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    unknown = {name: [None] * len(rows) for name in FILES.names if name not in names}
    return pa.table({**columns, **unknown}, schema=FILES)


@given(listings.filter(lambda files: all(f.path.isprintable() for f in files)), listings, st.data())
def test_it_tells_the_files_apart(indexed: list[FileStatus], listed: list[FileStatus], data: st.DataObject) -> None:
    crc = data.draw(st.sampled_from([CRC, CRC, CRC, 8]))
    same = set(indexed) == set(listed) and (crc == CRC or not indexed)
    known = listing_digest.of_manifest(FOLDER, INDEX, manifest_of(indexed), crc)
    assert (known == listing_digest.of_listing(FOLDER, INDEX, listed, CRC)) == same


@given(listings)
def test_the_order_of_files_does_not_matter_but_the_generation_and_the_index_do(files: list[FileStatus]) -> None:
    known = listing_digest.of_listing(FOLDER, INDEX, files, CRC)
    assert known == listing_digest.of_listing(FOLDER, INDEX, files[::-1], CRC)
    assert len(known) == 32 and int(known, 16) >= 0
    others = [
        replace(INDEX, encoding="ewah"),
        replace(INDEX, type="COMPACT"),
        replace(INDEX, columns=(Column("k", "bigint"),)),
    ]
    digests = {listing_digest.of_listing(FOLDER, other, files, CRC) for other in others}
    assert len({known, *digests, listing_digest.of_listing(f"{FOLDER}x", INDEX, files, CRC)}) == 5
    assert known == listing_digest.of_listing(FOLDER, replace(INDEX, name="j", comment="c", enabled=False), files, CRC)
