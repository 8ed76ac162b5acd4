"""List the base files of tables, in a folder or for a scan.

`file_listing` and, for tables with a SerDe, `serde` decide which tables are supported, and list the files in a folder
that Spark reads. `scan_listing` has the files that Spark lists for one scan.
"""

__all__ = ["file_listing", "scan_listing", "serde"]
