"""Execution of a plan: the selected rows as a DataFrame, or their offsets for readers of compact indexes.

`scan` and `result_file` have the entry points. Each task compares the file that it opens with the one that was planned.
"""

__all__ = ["offsets", "read_task", "result_file", "scan"]
