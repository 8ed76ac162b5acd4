"""What the metastore says of tables and partitions, and which base files are theirs, as this session reads them.

Tables and partitions are values (`table_info`), read by one of two readers behind one protocol and changed by SQL. Who
asks for a table says at once how its session reaches stores (`session_stores`). Nothing here knows of indexes.
"""

__all__ = [
    "alter_table",
    "base_files",
    "file_listing",
    "jvm_reader",
    "metastore",
    "serde",
    "session_settings",
    "session_stores",
    "table_info",
]
