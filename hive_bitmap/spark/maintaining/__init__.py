"""Maintain existing indexes: show, alter, attach, drop and clean up.

Each module has one entry point or a few. They change the metastore first, and delete files after that.

* `building/publish` changes the metastore first and cleans up afterwards. Slots are added empty, in a change of their
  own, and never dropped; then all that move, move in one `alter_partitions` (`protocol.Changes`), so a listing of
  them is of one state. If no other slot changes, as in a new index, they are added at their segments at once. The
  slots are listed again afterwards. If another build has taken one, the segment gets another slot, for five rounds.
  Two builds that indexed the same files may leave these covered twice: readers of ours take the segment with the
  oldest name, and the build that sees it (`build_scope.plan_mending`, else the next refresh) removes the other rows.
  Readers by SQL are meanwhile wrong, as the format (docs/format.md) says. What was replaced is only marked.
* Sessions that have no such call (Spark Connect) move slots one by one, the vacated ones first: rows may be missing
  for a moment from a query by SQL, never twice.
* `index/generation` determines the state of a folder (`State`) from its markers alone: building, complete, replaced,
  orphaned, or unknown, if no marker can be read. Code that deletes (`maintaining/clean`, the next build, a drop)
  first determines the time since which nobody can have needed the folder, and then what the metastore references. In
  the other order, a build could publish and end in between.
* `index/deletion` is the only code that deletes. It compares the marker of the root (`index/roots`), then that of the
  generation, with the id of the index; deletes files by the names that builds of this index gave
  (`table_schema.shard_name` begins with the token of the generation, and the marker lists the linked shards), never
  whole folders; and removes folders that are empty then. On local disks no link below the root is followed
  (`stores.delete_files`). Markers are deleted last, so that the remains of a killed deletion are still recognised.
  What is not ours stays, with a sentence (`Remains`, `Leftover.kept`, the log).
* `registry/locations` gives an index its id and root. A root given by LOCATION is compared with all tables and
  indexes of all databases; a root by default has a part of the id in its name, so only what lies around the default
  folder is looked for.
* The marker of a root names its metastore (`metastore/identity`), for a copy has the same ids. `roots.refusal`
  compares it before anything is deleted, `roots.claim` before anything is written. In a copy, `build_scope` gives an
  index another id and root (`Indexed.elsewhere`), and `publish` writes them to its table (`Publication.former`).
  `clean` deletes the folder of a dropped index only if its marker names this metastore, or names none and the user
  names the folder.
* A process knows in which folders its own builds are at work (`markers.is_in_work`); of other processes it is
  guessed.
* DROP TABLE asks Python for the indexes (`publish.doomed`), has Spark execute the statement, and then drops them
  (`maintaining/drop.drop_after`), because Spark or an authorizer may refuse, and because after a DROP DATABASE
  nothing else knows them any more.
* An index is what its table's properties say, as long as its table has the owner of the base table or is trusted
  otherwise (`registry/trust`, one rule for all entry points), their checksum is right, and the index table and the
  base table still fit it (`index/schema_drift`). Its WHERE is never run: `index/partition_conditions` parses it and
  writes it anew. Otherwise it has a problem, which `show` reports, and queries do not use it. The marker of each
  segment records what the properties were, and `rebuild` writes them again.
* An index table is in `Definition.index_table_database`. If that is not the database of the base table, or if the
  name is not the default one (`needs_pointer`), `catalog.point_to` adds it to a property of the base table. This is
  done before the index table is created or renamed (`catalog.renaming`). Queries find index tables by their names in
  the database of the base table and by this pointer, in one cached answer (`catalog.indexes_on`). They read the
  pointer again, because a session keeps the description of a table for as long as it lives. Code that lists a
  database (`catalog.tables_around`) also describes the index tables to which its tables point, and the base tables of
  its index tables, to compare the owners (`trust.base_named`). The marker of a root also names the database of the
  index table, so `clean` knows in which database an index table must be missing before its folder is left over.
* A manifest has, for each file, a checksum of the columns that the table had (`definition.schema_crc`). It only tells
  whether the keys would be read alike now (`valid_schemas`), and which columns were looked at when the file was
  indexed (`known_schemas`). ORC files that Spark reads by name are marked (`by_name`), and stay indexed under any
  checksum; Hive's ways of finding columns differ from version to version, so `hive/` asks without that. A column that
  was added since is NULL in a file that has no such name (`foreign`), so tasks may read it.
* To the metastore a renamed table is another one. `maintaining/attach` has its indexes come along. If the files stay,
  an index stays too: `roots.rename` writes the new name to the marker of the root, then `catalog.move` renames the
  index table and writes the new definition. The generations keep their markers; the id and the marker of the root
  tell that they are the index's (`roots.has_built`). If the files were moved, `attach` makes a new index of each old
  one: `Indexed.covered` has what the old one covers, with the files where they lie now (`Covered.moved_to`); shards
  with moved paths a Compaction rewrites after it has compared the fingerprints.
* Another encoding has other columns. So the index table is created anew under another name and then replaces the old
  one.
"""

__all__ = ["alter", "attach", "clean", "drop", "show"]
