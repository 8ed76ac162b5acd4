"""Read and change tables and partitions in the metastore, and list their base files.

Files are listed as the session reads them. Tables and partitions are values (`core/table_info`). Two implementations of
one protocol (`protocol`) read and change the metastore. The SQL of statements that change tables is in `table_ddl`,
which only these implementations use. If a session reads a table, this process uses the store settings of this session
from then on (`session_settings`). This package does not depend on indexes.
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
