"""Run functions in Spark tasks.

`distribution` sends functions and values to tasks, together with the driver's settings of stores, and returns results
and errors of stores to the driver. `task_requests` counts the requests that tasks send to stores. `worker_python` is
about the Python of tasks. `children` has child processes of tasks do what may end its process.
"""

__all__ = ["children", "distribution", "task_requests", "worker_python"]
