"""Execution of a plan: rows, or offsets for readers of compact indexes.

`superset` reads rows by tasks, or makes Spark leave out files; `result_file` writes offsets. Each task compares the
file that it opens with the one that was planned.
"""

__all__ = ["offsets", "read_task", "superset", "unit_offsets"]
