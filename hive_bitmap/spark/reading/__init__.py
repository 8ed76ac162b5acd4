"""Execute a plan by our own tasks.

Our tasks return rows, counts, or offsets for readers of compact indexes. `superset` reads rows, or makes Spark skip
files. `aggregates` counts in the index. Each task checks that the file that it opens is the planned file. `file_set`
checks the files of a plan before the plan is executed.
"""

__all__ = ["aggregates", "file_set", "read_task", "superset"]
