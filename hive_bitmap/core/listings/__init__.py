"""List the base files of tables, in a folder or for a scan.

`file_listing` decides which tables are supported, and lists those files of a folder that Spark reads. `serde` does the
same for tables with a SerDe. `scan_listing` parses the list of the files that Spark reads for one scan.
"""

__all__ = ["file_listing", "scan_listing", "serde"]
