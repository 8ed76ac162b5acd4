"""Maintain existing indexes: show, alter, attach, drop and clean up.

Each module has one entry point or a few. They change the metastore first, and delete files after that.

* `building/publish` changes the metastore and then cleans up. It first adds slots, empty and in a separate call; slots
  are never dropped. It then moves all changed slots in one `alter_partitions` (`protocol.Changes`), so whoever lists
  them sees one state. If no other slot changes, as in a new index, slots are added with their segments at once. The
  slots are listed again afterwards. If another build has taken one, the segment gets another slot, for at most five
  rounds. If two builds have indexed the same files, both segments may cover them: queries then use the segment with the
  oldest name, and the build that detects this (`build_scope.plan_mending`, otherwise the next refresh) removes the rows
  of the other one. Until then, SQL queries of the index table count these rows twice, as docs/format.md says. The
  replaced generations are only marked.
* A session without this call (Spark Connect) moves slots one by one, and first those that become empty. So a SQL query
  of the index table may miss rows for a moment, but never sees rows twice.
* `index/generation` determines the state of a folder (`State`) from its markers alone: building, complete, replaced,
  orphaned, or unknown, if no marker can be read. Code that deletes (`maintaining/clean`, the next build, a drop) first
  determines the time since which nobody can have needed the folder, and then what the metastore references. In the
  other order, a build could publish and end in between.
* `index/deletion` is the only code that deletes. It compares the id in the marker of the root (`index/roots`), then the
  id in the marker of the generation, with the id of the index. It deletes files by the names that builds of this index
  gave them (`table_schema.shard_name` begins with the token of the generation, and the marker lists the linked shards),
  never whole folders, and then removes folders that have become empty. On local disks no link below the root is
  followed (`stores.delete_files`). Markers are deleted last, so that the remains of a killed deletion are still
  recognised. Other files stay, and a sentence says so (`Remains`, `Leftover.kept`, the log).
* `registry/locations` gives an index its id and root. A root that LOCATION names is compared with all tables and
  indexes of all databases. The name of a default root contains a part of the id, so only the surroundings of the
  default folder are checked.
* The marker of a root names its metastore (`metastore/identity`), because indexes in a copy of a metastore have the
  same ids. `roots.refusal` compares it before anything is deleted, `roots.claim` before anything is written. In a copy,
  `build_scope` gives an index a new id and root (`Indexed.elsewhere`), and `publish` writes them to its table
  (`Publication.former`). `clean` deletes the folder of a dropped index only if its marker names this metastore, or if
  it names none and the user names the folder.
* A process knows in which folders its own builds write (`markers.is_in_work`). Whether another process still writes to
  a folder is guessed from its marker (`Author.is_at_work`).
* DROP TABLE asks Python for the indexes (`publish.index_to_drop`), has Spark execute the statement, and then drops them
  (`maintaining/drop.drop_after`), because Spark or an authorizer may refuse, and because the metastore no longer lists
  them after a DROP DATABASE.
* The properties of an index table define the index. An index has a problem unless its table has the owner of the base
  table or is trusted for another reason (`registry/trust`, one rule for all entry points), the checksum of the
  properties is right, and the index table and the base table still fit them (`index/schema_drift`). `show` reports the
  problem, and queries do not use the index. The WHERE of the properties is never run as it is:
  `index/partition_conditions` parses it and formats the result. The marker of each segment has a copy of the
  properties, from which `rebuild` restores them.
* An index table is in `Definition.index_table_database`. If that is not the database of the base table, or if the name
  is not the default one (`needs_pointer`), `catalog.point_to` adds it to a property of the base table. This is done
  before the index table is created or renamed (`catalog.renaming`). Queries find index tables by their names in the
  database of the base table and by this pointer, in one cached answer (`catalog.indexes_on`). They read the pointer
  again, because a session keeps the description of a table for as long as it lives. Code that lists a database
  (`catalog.tables_around`) also describes the index tables to which its tables point, and the base tables of its index
  tables, to compare the owners (`trust.base_named`). The marker of a root also names the database of the index table,
  so `clean` looks for the index table there before it treats the folder as a leftover.
* A manifest has, for each file, a checksum of the columns that the table had (`definition.schema_crc`). It only shows
  whether the keys would be read alike now (`valid_schemas`), and which columns were looked at when the file was indexed
  (`known_schemas`). ORC files whose columns Spark finds by name are marked (`by_name`), and stay indexed under any
  checksum. Hive's ways of finding columns differ from version to version, so `hive/` ignores this mark. A column that
  was added since is NULL in a file without such a column (`foreign`), so tasks may read it.
* For the metastore a renamed table is another one, and `maintaining/attach` moves its indexes to it. If the files have
  stayed where they were, so has the index: `roots.rename` writes the new name to the marker of the root, then
  `catalog.move` renames the index table and writes the new definition. The generations keep their markers; the id and
  the marker of the root show that they belong to the index (`roots.has_built`). If the files were moved, `attach` makes
  a new index from each old one. `Indexed.covered` has what the old index covers, with the new paths of the files
  (`Covered.moved_to`). A Compaction rewrites shards with moved paths after it has compared the fingerprints.
* Another encoding has other columns. So a new index table is created under a temporary name and then replaces the old
  one.
"""

__all__ = ["alter", "attach", "clean", "drop", "show"]
