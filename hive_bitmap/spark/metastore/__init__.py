"""Read and change tables and partitions in the metastore, and list their base files.

Files are listed as the session reads them. Tables and partitions are values (`core/table_info`). Two implementations
of one protocol (`protocol`) read and change the metastore; only they use the SQL in `table_ddl`. After a call for a
session, this process uses the store settings of that session (`session_settings`). This package knows nothing of
indexes.
"""

__all__ = [
    "alter_table",
    "base_files",
    "identity",
    "jvm_reader",
    "jvm_settings",
    "metastore",
    "permission",
    "protocol",
    "session_settings",
]
