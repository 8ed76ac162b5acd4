"""The root of an index, the folder of its generations, and the marker in it that says whose it is.

The marker is written when the index is created, and compared before anything in the root is deleted. It has the id of
the index, which no other has, so that neither a root in the properties of another table nor another index in the same
folder is mistaken for this one. Indexes of early versions have no id until their next rebuild: until then database,
table and root in the markers of their generations tell them.

If the table of an index is renamed and its files stay, the index keeps its root: the marker then gets the new name, and
generations, whose markers have the former one, are told by the id.

A copy of a metastore has the same tables with the same ids, so the marker names the metastore, too. Only sessions of
that metastore write or delete in the root. In a copy, the next rebuild gives the index another root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

from hive_bitmap.core import stores
from hive_bitmap.core.index import markers
from hive_bitmap.core.index.definition import Definition
from hive_bitmap.core.index.markers import Author, Unreadable
from hive_bitmap.core.stores import FileStatus
from hive_bitmap.errors import Unsupported

MARKER = "_index.json"
BY_HAND = "delete what is yours of it by hand"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The index to which a root belongs, by the marker in it: `index` is its name when it was created.

    `metastore` tells the metastore in which it was created (`metastore/identity.metastore_id`); "" if nothing does.
    `index_database` is the database of the index table; "" if it is that of the base table.
    """

    id: str
    database: str
    table: str
    index: str
    metastore: str
    author: Author
    index_database: str = ""

    @property
    def described(self) -> str:
        return f"{self.index} on {self.database}.{self.table}"


def only_begun(root: str, alone: bool) -> list[FileStatus]:
    """Return the files of a folder that are markers of a root which killed builds had begun to write.

    None are returned if there is a marker, and, with `alone`, if the folder holds anything else.
    """
    try:
        there = stores.listing(root)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    names = {file.path.rpartition("/")[2]: file for file in there.files}
    begun = [name for name in names if markers.is_begun(name, MARKER) and name not in there.others]
    if MARKER in there.names or (alone and begun != there.names):
        return []
    return [names[name] for name in begun]


def new_id() -> str:
    """Return an id that no other index has."""
    return uuid4().hex


def owner(root: str) -> Owner | None:
    """Return the owner of a root by its marker; None if it has none. Raise Unreadable."""
    content = markers.read(root, MARKER)
    if content is None:
        return None
    named = {name: content.get(name) for name in ("id", "database", "table", "index", "metastore")}
    named["index_database"] = content.get("index_database", "")
    if not named["id"] or not all(isinstance(value, str) for value in named.values()):
        raise Unreadable(f"its marker {MARKER} names no index")
    if not re.fullmatch("[a-z0-9_]*", str(named["index_database"])):
        raise Unreadable(f"its marker {MARKER} names no database")
    return Owner(**{name: str(value) for name, value in named.items()}, author=Author.of(content, MARKER))


def claim(definition: Definition, metastore: str) -> None:
    """Mark the root of an index as its own, unless it is already. Raise Unsupported if it is another index's.

    A build is at work in the root until `markers.end_work`. `metastore` is the id of the index's metastore. A marker
    that cannot be read stays, and keeps anything in the root from being deleted.
    """
    stores.make_folder(definition.root)
    try:
        known = owner(definition.root)
    except Unreadable:
        markers.begin_work(definition.root)
        return
    if known is None and definition.id:
        _mark(definition, metastore)
        known = owner(definition.root)
    if problem := _dispute(known, definition, metastore):
        raise Unsupported(f"{problem}: drop index {definition.name}, and create it anew")
    markers.begin_work(definition.root)


def take_over(definition: Definition, metastore: str) -> None:
    """Mark the root of an index, which another metastore has marked, as one of this metastore."""
    if metastore and is_elsewhere(definition, metastore):
        _mark(definition, metastore)


def rename(definition: Definition, former: Definition, metastore: str) -> None:
    """Mark the root of an index with the new name of its table. Raise Unsupported if it is not marked as this index's.

    A former call may have marked it.
    """
    if is_marked(definition, metastore):
        return
    if not is_marked(former, metastore):
        problem = refusal(former, metastore) or f"folder {former.root} has no marker {MARKER}"
        raise Unsupported(f"{problem}: drop index {former.name}, and create it anew")
    _mark(definition, metastore)


def _mark(definition: Definition, metastore: str) -> None:
    named = {"id": definition.id, "index": definition.name}
    home = {"database": definition.database, "table": definition.table, "metastore": metastore}
    apart = {"index_database": definition.index_database} if definition.index_database else {}
    markers.write(definition.root, MARKER, {**named, **home, **apart, **asdict(Author.this_process())})


def identified(definition: Definition) -> Definition:
    """Return a definition with an id: its own, that of its root, which an earlier build has marked, or a new one."""
    if definition.id:
        return definition
    try:
        known = owner(definition.root)
    except Unreadable:
        known = None
    return replace(definition, id=known.id if known is not None and _is_home(known, definition) else new_id())


def refusal(definition: Definition, metastore: str) -> str:
    """Return why a session of this metastore may delete nothing in the root of an index; "" if it may."""
    try:
        known = owner(definition.root)
    except Unreadable as e:
        return (
            f"folder {definition.root} is left alone, as {e}: if it is this index's folder, delete the marker, and the "
            "next rebuild writes it anew"
        )
    return _why_left(known, definition, metastore)


def _why_left(known: Owner | None, definition: Definition, metastore: str) -> str:
    """Return why a session of this metastore leaves a root alone, by its owner; "" if it may delete in it."""
    if problem := _dispute(known, definition, metastore):
        return problem
    if known is not None and known.metastore and not metastore:
        return (
            f"folder {definition.root} is left alone, as this session does not show whether its metastore is the one "
            f"that the marker {MARKER} names: set spark.hadoop.hive.metastore.uris where Spark is started"
        )
    return ""


def _dispute(known: Owner | None, definition: Definition, metastore: str) -> str:
    """Return why a root belongs to another index or metastore, by its owner; "" if it does not."""
    if known is None:
        return ""
    left = f"folder {definition.root} is left alone, as its marker {MARKER} says that it is of"
    if not (_is_home(known, definition) and definition.id == known.id):
        return f"{left} index {known.described}"
    return "" if may_be_same(known.metastore, metastore) else f"{left} another metastore"


def is_marked(definition: Definition, metastore: str) -> bool:
    """Return whether the marker in the root names this very index, and this metastore or none."""
    try:
        known = owner(definition.root)
    except Unreadable:
        return False
    return known is not None and not _why_left(known, definition, metastore)


def is_elsewhere(definition: Definition, metastore: str) -> bool:
    """Return whether the marker in the root of an index names it as one of another metastore."""
    try:
        known = owner(definition.root)
    except Unreadable:
        return False
    if known is None or not _is_home(known, definition) or definition.id not in ("", known.id):
        return False
    return not may_be_same(known.metastore, metastore)


def may_be_same(one: str, other: str) -> bool:
    """Return whether two ids may be of one metastore: they share an address, or one of them is not known.

    >>> may_be_same("a,b", "b,c"), may_be_same("a", "b"), may_be_same("a", "")
    (True, False, True)
    """
    return not one or not other or not set(one.split(",")).isdisjoint(other.split(","))


def rival(definition: Definition, others: Iterable[Definition]) -> str:
    """Return which of other indexes claims to be this one, as a copy of its table does, as a sentence; "" if none."""
    for other in others:
        same = other.full_index_table == definition.full_index_table
        replaced = is_replacement(other, definition) or is_replacement(definition, other)
        if not same and not replaced and is_of(other, definition):
            tables = f"tables {definition.full_index_table} and {other.full_index_table}"
            return f"folder {definition.root} is left alone, as {tables} both claim it: drop the copy by DROP TABLE"
    return ""


def next_table(definition: Definition) -> str:
    """Return the temporary name of the table that replaces an index table.

    It fits the naming scheme of index tables of the same base table, so that the index is found meanwhile; where a
    pointer leads to the index table, one leads to this table, too. No other index has its name, for that has a part of
    the id.
    """
    return f"{definition.index_table}{definition.id[:8]}next__"


def is_replacement(new: Definition, definition: Definition) -> bool:
    """Return whether an index table was made to replace that of this index: what a build leaves that is killed then."""
    named = replace(definition, index_table=next_table(definition)).full_index_table
    return new.full_index_table == named and new.root == definition.root and is_of(new, definition)


def is_of(written: Definition, definition: Definition) -> bool:
    """Return whether a generation, by the definition in its marker, was built for this index."""
    if (written.database, written.table) != (definition.database, definition.table):
        return False  # also with its id, as in the properties that the owner of another table has copied
    if written.id and definition.id:
        return written.id == definition.id
    return written.root == definition.root


def has_built(definition: Definition, written: Definition) -> bool:
    """Return whether a generation in the root of an index, by the definition in its marker, was built for this index.

    The table may have had another name then. So the marker of the root must name the table and the id.
    """
    if is_of(written, definition):
        return True
    if not definition.id or (written.id, written.root) != (definition.id, definition.root):
        return False
    try:
        known = owner(definition.root)
    except Unreadable:
        return False
    return known is not None and known.id == definition.id and _is_home(known, definition)


def _is_home(known: Owner, definition: Definition) -> bool:
    return (known.database, known.table) == (definition.database, definition.table)
