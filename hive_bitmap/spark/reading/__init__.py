"""Execute a plan in tasks of this package.

`superset` reads rows, or makes Spark skip files; `read_task` is the work of a task. `aggregates` counts rows in the
index. Each task checks that the file that it opens is the planned file. `file_set` compares the files of a plan with
the current ones before the plan is executed.
"""

__all__ = ["aggregates", "file_set", "read_task", "superset"]
