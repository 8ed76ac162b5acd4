"""Execution of a plan by tasks of ours: rows, counts, or offsets for readers of compact indexes.

`superset` reads rows, or makes Spark leave out files. `aggregates` counts in the index, and in files that it does not
know. Each task compares the file that it opens with the one that was planned; `planned_files` compares those of a plan
before it is executed.
"""

__all__ = ["aggregates", "planned_files", "read_task", "superset", "unit_offsets"]
