"""Run functions in Spark tasks.

`distribution` sends functions and values to tasks, together with the driver's store settings, and returns results and
store errors to the driver. `task_requests` counts the requests that tasks send to stores. `worker_python` chooses and
checks the Python of tasks. `children` runs code that may end its process in child processes of tasks.
"""

__all__ = ["children", "distribution", "task_requests", "worker_python"]
