"""Maintain existing indexes: show, alter, attach, drop and clean up.

Each module has a few entry points. All modules change the metastore first, and then delete files.

* `building/publish` changes the metastore and then cleans up. It first adds empty slots in a separate call; slots are
  never dropped. It then moves all changed slots in one `alter_partitions` (`protocol.Changes`), so every listing of the
  slots shows one state. If only new slots change, as in a new index, they are added with their segments in one call.
  The slots are listed again afterwards. If another build has taken the slot of a segment, the segment gets another
  slot, for at most five rounds. If two builds have indexed the same files, both segments may cover them: queries then
  use the segment with the oldest name, and the build that detects this (`build_scope.plan_mending`, otherwise the next
  refresh) removes the rows of the other segment. Until then, SQL queries of the index table count these rows twice, as
  docs/format.md says. The replaced generations are only marked.
* A session without `alter_partitions` (Spark Connect) moves slots one by one, first the slots that become empty. So a
  SQL query of the index table may miss rows for a moment, but never sees rows twice.
* `index/generation` determines the state of a folder (`State`) from its markers alone: building, complete, replaced,
  orphaned, or unknown, if no marker can be read. Code that deletes (`maintaining/clean`, the next build, a drop) first
  reads the state of each folder, and how long the folder has been unused, and only then asks which folders the
  metastore references. In the other order, a build could publish the folder and end between the two steps.
* `index/deletion` is the only code that deletes. It compares the id in the marker of the root (`index/roots`), then the
  id in the marker of the generation, with the id of the index. It deletes files by the names that builds of this index
  gave them (`shard.shard_name` begins with the token of the generation, and the marker lists the linked shards),
  never whole folders, and then removes folders that have become empty. On local disks no link below the root is
  followed (`stores.delete_files`). Markers are deleted last, so that the remains of a killed deletion are still
  recognised. Files with other names stay, and a sentence says so (`Remains`, `Leftover.kept`, the log).
* `registry/locations` gives an index its id and root. A root that LOCATION names is compared with all tables and
  indexes of all databases. The name of a default root contains a part of the id, so only the surroundings of the
  default folder are checked.
* The marker of a root names its metastore (`metastore/identity`), because indexes in a copy of a metastore have the
  same ids. `roots.refusal` compares the metastore before anything is deleted, `roots.claim` before anything is written.
  In a copy, `build_scope` gives an index a new id and root (`Indexed.elsewhere`), and `publish` writes id and root to
  the index table (`Publication.former`). `clean` deletes the folder of a dropped index only if its marker names this
  metastore, or if the marker names no metastore and the user gives the folder as the location.
* A process knows in which folders its own builds write (`markers.is_in_work`). For other processes this is guessed from
  the marker of the folder (`Author.is_at_work`).
* DROP TABLE asks Python for the indexes (`publish.index_to_drop`), has Spark execute the statement, and then drops the
  indexes (`maintaining/drop.drop_after`). The indexes are dropped last, because Spark or an authorizer may refuse the
  statement. Python is asked for the indexes first, because the metastore no longer lists them after a DROP DATABASE.
* The properties of an index table define the index. An index has a problem if it is not trusted (`registry/trust`, one
  rule for all entry points), if the checksum of the properties is wrong, or if the index table or the base table no
  longer fits the properties (`index/schema_drift`). `show` reports the problem, and queries do not use the index. The
  text of the property WHERE is never run: `index/partition_conditions` parses it, and Spark runs the text that is
  formatted from the parsed condition. The marker of each segment has a copy of the properties, from which `rebuild`
  restores them.
* An index table is in `Definition.index_table_database`. If this is not the database of the base table, or if the index
  table does not have its default name (`needs_pointer`), `catalog_changes.point_to` adds a pointer to the index table
  to a property of the base table. The pointer is added before the index table is created or renamed
  (`catalog_changes.renaming`). Queries find index tables by their names in the database of the base table, and by
  pointers (`catalog.indexes_on`). The index tables are cached. Queries read the pointers again, because a session keeps
  the description of a table until the session ends. Code that lists a database (`catalog.tables_around`) also describes
  the index tables to which tables of the database point. To compare owners, this code also describes the base tables of
  the index tables in the database (`trust.base_named`). The marker of a root also names the database of the index
  table, so `clean` looks for the index table in that database before the folder counts as a leftover.
* A manifest has, for each file, a checksum of the columns that the table had (`definition.schema_crc`). The checksum
  only shows whether a build would now read the same keys (`valid_schemas`), and which columns the build has looked at
  (`known_schemas`). An ORC file that names its columns, all of simple types without timestamps, is marked (`by_name`),
  and stays indexed under any checksum. Hive's ways of finding columns differ from version to version, so `hive/`
  ignores this mark. If a column was added after a file was indexed, and the file has no column of that name
  (`foreign`), the column is NULL in the file, so tasks may read it.
* For the metastore a renamed table is another table. `maintaining/attach` moves the indexes to the table's new name. If
  the files of the table have stayed in place, the files of the index stay too: `roots.rename` writes the new name to
  the marker of the root, then `catalog_changes.move` renames the index table and writes the new definition. The
  generations keep their markers; the id and the marker of the root show that they belong to the index
  (`roots.has_built`). If the files were moved, `attach` makes a new index from each old one. `Indexed.covered` has what
  the old index covers, with the new paths of the files (`Covered.moved_to`). A `Compaction` compares the fingerprints
  of the moved files, and then rewrites the shards with the new paths.
* An index table with another encoding has other columns. So after a change of the encoding, a new index table is
  created under a temporary name and then replaces the old index table.
"""

__all__ = ["alter", "attach", "clean", "drop", "show"]
