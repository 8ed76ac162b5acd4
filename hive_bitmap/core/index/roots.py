"""Mark an index's root with its owner, and tell indexes apart.

The root is the folder of the generations of an index. The marker is written when the index is created, and compared
before anything in the root is deleted. The marker has the unique id of the index. The id distinguishes the index from
other indexes, because the properties of another table may name this root, or another index may be in the same folder.
An index of an early version has no id until its next rebuild. Until then, the database, table and root in the markers
of the generations identify such an index.

If the table of an index is renamed and the files of the table stay, the index keeps its root. Then the marker of the
root gets the new name. Generations with the former name in their markers are recognised by the id.

A copy of a metastore has the same tables with the same ids, so the marker names the metastore, too. Sessions of another
metastore neither write nor delete in the root, and a session whose metastore is unknown does not delete in the root. In
a copy of the metastore, the next rebuild gives the index another root.

Index tables are told apart by the ids of their indexes, without a marker (`is_of`, `rival`). The table that replaces an
index table in a rebuild has a temporary name (`next_table`).
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
BY_HAND = "delete your files in it by hand"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The index that owns a root, according to the marker in the root.

    `index` is the name of the index at its creation. `metastore` identifies the metastore in which the index was
    created (`metastore/identity.metastore_id`); "" if this metastore is unknown. `index_database` is the database of
    the index table; "" for the database of the base table.
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
    """Return the unfinished markers of a folder.

    Killed builds leave unfinished markers. The result is empty if the folder is missing or unreadable, or has a
    complete marker. With `alone`, the result is also empty if the folder has any other entry.
    """
    try:
        entries = stores.listing(root)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    names = {file.path.rpartition("/")[2]: file for file in entries.files}
    begun = [name for name in names if markers.is_begun(name, MARKER) and name not in entries.others]
    if MARKER in entries.names or (alone and begun != entries.names):
        return []
    return [names[name] for name in begun]


def new_id() -> str:
    """Return an id that is unique to an index."""
    return uuid4().hex


def owner(root: str) -> Owner | None:
    """Return the owner that the marker of a root names; None without a marker.

    Raises Unreadable.
    """
    content = markers.read(root, MARKER)
    if content is None:
        return None
    named = {name: content.get(name) for name in ("id", "database", "table", "index", "metastore")}
    named["index_database"] = content.get("index_database", "")
    if not named["id"] or not all(isinstance(value, str) for value in named.values()):
        raise Unreadable(f"its marker {MARKER} names no index")
    if not re.fullmatch("[a-z0-9_]*", str(named["index_database"])):
        raise Unreadable(f"its marker {MARKER} has an invalid index_database")
    return Owner(**{name: str(value) for name, value in named.items()}, author=Author.of(content, MARKER))


def claim(definition: Definition, metastore: str) -> None:
    """Mark the root of an index as owned, and begin a build.

    The build works in the root until `markers.end_work`. `metastore` is the id of the index's metastore. An existing
    marker that cannot be read is kept, and protects everything in the root from deletion. Raises Unsupported if the
    root belongs to another index.
    """
    stores.make_folder(definition.root)
    try:
        holder = owner(definition.root)
    except Unreadable:
        markers.begin_work(definition.root)
        return
    if holder is None and definition.id:
        _mark(definition, metastore)
        holder = owner(definition.root)
    if problem := _dispute(holder, definition, metastore):
        raise Unsupported(f"{problem}: drop index {definition.name}, and create it again")
    markers.begin_work(definition.root)


def take_over(definition: Definition, metastore: str) -> None:
    """Mark the root of an index as a root of this metastore.

    Nothing is done unless the marker of the root names another metastore.
    """
    if metastore and is_elsewhere(definition, metastore):
        _mark(definition, metastore)


def rename(definition: Definition, former: Definition, metastore: str) -> None:
    """Mark the root of an index with the new name of the index's table.

    `former` is the definition with the former name, and `metastore` the id of the metastore. A root that is already
    marked with the new name is left unchanged. Raise Unsupported if the root is not marked with the former name of the
    table.
    """
    if is_marked(definition, metastore):
        return
    if not is_marked(former, metastore):
        problem = refusal(former, metastore) or f"folder {former.root} has no marker {MARKER}"
        raise Unsupported(f"{problem}: drop index {former.name}, and create it again")
    _mark(definition, metastore)


def _mark(definition: Definition, metastore: str) -> None:
    named = {"id": definition.id, "index": definition.name}
    home = {"database": definition.database, "table": definition.table, "metastore": metastore}
    elsewhere = {"index_database": definition.index_database} if definition.index_database else {}
    markers.write(definition.root, MARKER, {**named, **home, **elsewhere, **asdict(Author.this_process())})


def identified(definition: Definition) -> Definition:
    """Return a definition with an id.

    A definition without an id gets the id in the marker of its root. If this marker is missing, unreadable or names
    another table, the definition gets a new id.
    """
    if definition.id:
        return definition
    try:
        holder = owner(definition.root)
    except Unreadable:
        holder = None
    return replace(definition, id=holder.id if holder is not None and _is_home(holder, definition) else new_id())


def refusal(definition: Definition, metastore: str) -> str:
    """Return why this metastore may not delete in an index's root.

    Return "" if deletion is allowed.
    """
    try:
        holder = owner(definition.root)
    except Unreadable as e:
        return (
            f"folder {definition.root} is left alone, because {e}: if it is this index's folder, delete the marker, "
            "and the next rebuild writes it again"
        )
    return _refusal(holder, definition, metastore)


def _refusal(holder: Owner | None, definition: Definition, metastore: str) -> str:
    """Return why this metastore may not delete in the root of an index.

    Return "" if deletion is allowed. `holder` is the owner in the root's marker; None without a marker.
    """
    if problem := _dispute(holder, definition, metastore):
        return problem
    if holder is not None and holder.metastore and not metastore:
        return (
            f"folder {definition.root} is left alone, because this session cannot tell whether its metastore is the "
            f"one that the marker {MARKER} names: set spark.hadoop.hive.metastore.uris where Spark is started"
        )
    return ""


def _dispute(holder: Owner | None, definition: Definition, metastore: str) -> str:
    """Return a sentence if a root belongs to another index or metastore.

    Return "" if the root belongs to this index and metastore, or to nobody. `holder` is the owner in the root's marker;
    None without a marker.
    """
    if holder is None:
        return ""
    prefix = f"folder {definition.root} is left alone, because its marker {MARKER} names"
    if not (_is_home(holder, definition) and definition.id == holder.id):
        return f"{prefix} index {holder.described}"
    return "" if may_be_same(holder.metastore, metastore) else f"{prefix} another metastore"


def is_marked(definition: Definition, metastore: str) -> bool:
    """Return whether a root's marker names this index and this metastore.

    `metastore` is the id of this metastore; "" if it is unknown. A marker without a metastore fits any metastore. A
    marker with a metastore does not fit an unknown metastore.
    """
    try:
        holder = owner(definition.root)
    except Unreadable:
        return False
    return holder is not None and not _refusal(holder, definition, metastore)


def is_elsewhere(definition: Definition, metastore: str) -> bool:
    """Return whether the marker in a root names this index in another metastore."""
    try:
        holder = owner(definition.root)
    except Unreadable:
        return False
    if holder is None or not _is_home(holder, definition) or definition.id not in ("", holder.id):
        return False
    return not may_be_same(holder.metastore, metastore)


def may_be_same(first: str, second: str) -> bool:
    """Return whether two ids may belong to the same metastore.

    Two ids may belong to the same metastore if they share an address, or if one of the ids is unknown ("").

    >>> may_be_same("a,b", "b,c"), may_be_same("a", "b"), may_be_same("a", "")
    (True, False, True)
    """
    return not first or not second or not set(first.split(",")).isdisjoint(second.split(","))


def rival(definition: Definition, indexes: Iterable[Definition]) -> str:
    """Return a sentence if this index's table has a copy.

    A copy is another index table in `indexes` with the same base table and the same id. If one of the two has no id,
    the root must be the same instead. A table that replaces the other in a rebuild (`is_replacement`) is not a copy.
    Return "" if there is no copy.
    """
    for other in indexes:
        same = other.full_index_table == definition.full_index_table
        replaced = is_replacement(other, definition) or is_replacement(definition, other)
        if not same and not replaced and is_of(other, definition):
            tables = f"tables {definition.full_index_table} and {other.full_index_table}"
            return f"folder {definition.root} is left alone, because {tables} claim it: drop the copy by DROP TABLE"
    return ""


def next_table(definition: Definition) -> str:
    """Return the temporary name of the table that replaces an index table.

    The name follows the scheme of index tables of the same base table, so the index can be found during the
    replacement. An index table that is found only by the base table's POINTER property is replaced by a table that has
    an item of its own in this property. The name is unique, because it contains a part of the index's id.
    """
    return f"{definition.index_table}{definition.id[:8]}next__"


def is_replacement(new: Definition, definition: Definition) -> bool:
    """Return whether the table of `new` was created to replace the table of `definition`.

    A killed build can leave such a table behind.
    """
    replacement = replace(definition, index_table=next_table(definition)).full_index_table
    return new.full_index_table == replacement and new.root == definition.root and is_of(new, definition)


def is_of(written: Definition, definition: Definition) -> bool:
    """Return whether a stored definition belongs to this index.

    `written` may come from a marker, and may have properties that the index no longer has.
    """
    if (written.database, written.table) != (definition.database, definition.table):
        return False  # even with the same id: the owner of another table may have copied the properties
    if written.id and definition.id:
        return written.id == definition.id
    return written.root == definition.root


def has_built(definition: Definition, written: Definition) -> bool:
    """Return whether a generation in an index's root belongs to this index.

    `written` is the definition in the marker of the generation. If `written` has a former name of the table, the marker
    of the root must have the current name and the id of the index.
    """
    if is_of(written, definition):
        return True
    if not definition.id or (written.id, written.root) != (definition.id, definition.root):
        return False
    try:
        holder = owner(definition.root)
    except Unreadable:
        return False
    return holder is not None and holder.id == definition.id and _is_home(holder, definition)


def _is_home(holder: Owner, definition: Definition) -> bool:
    return (holder.database, holder.table) == (definition.database, definition.table)
