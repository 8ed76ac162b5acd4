"""Work in Spark's tasks: functions and values go out, results and errors of stores come back.

`distribution` is what other rooms use; a task reaches stores as the driver that sent it does.
"""

__all__ = ["distribution"]
