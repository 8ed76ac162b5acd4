"""The base files of tables: which ones readers find in a folder, and what Spark lists for a scan.

`serde` and `file_listing` decide which tables are supported, and read as Spark reads them. `scan_listing` has the files
of one scan.
"""

__all__ = ["file_listing", "scan_listing", "serde"]
