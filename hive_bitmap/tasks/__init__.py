"""Work in Spark's tasks: functions and values go out, results and errors of stores come back.

`distribution` sends them, and a task reaches stores as the driver that sent it does; `task_requests` counts what tasks
ask of stores.
"""

__all__ = ["distribution", "task_requests"]
