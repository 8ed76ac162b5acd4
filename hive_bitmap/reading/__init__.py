"""What a plan gives: the rows that it keeps as a DataFrame, or their offsets for readers of compact indexes.

`scan` and `result_file` have the entry points. A task compares the file that it opens with the one of the plan.
"""

__all__ = ["offsets", "read_task", "result_file", "scan"]
