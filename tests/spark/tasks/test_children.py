"""Child processes of a task: their results, and what ends them."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from hive_bitmap.core.stores import options
from hive_bitmap.core.stores.options import Options
from hive_bitmap.errors import HiveBitmapError, Undecodable
from hive_bitmap.spark.tasks.children import Died, results


def doomed(item: Any) -> Any:
    """Do what the item says: be killed by a signal, end, fail, print, or come back."""
    match item:
        case int():
            os.kill(os.getpid(), item)
        case "exit":
            os._exit(3)
        case "fail":
            raise Undecodable("as told")
        case "print":
            os.write(1, b"noise on standard output\n")
        case "options":
            return repr(options.current())
    return item


def test_results_come_in_order() -> None:
    assert list(results(doomed, [])) == []
    assert list(results(doomed, ["a", "print", "b"])) == ["a", "print", "b"]


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_an_item_that_ends_its_process_has_that_as_its_result(number: int) -> None:
    died = Died(signal.Signals(number).name)
    assert list(results(doomed, [number, "a", number, number, "b", number])) == [died, "a", died, died, "b", died]
    assert died.reason == f"a library ended the process that read it ({signal.Signals(number).name})"


@pytest.mark.parametrize("item", [int(signal.SIGKILL), int(signal.SIGTERM), "exit"])
def test_an_end_that_is_not_of_its_own_making_is_an_error(item: Any) -> None:
    found = results(doomed, ["a", item, "b"])
    assert next(found) == "a"
    with pytest.raises(HiveBitmapError, match=r"^a child process of a task ended with status "):
        next(found)


def test_an_error_is_raised_here() -> None:
    found = results(doomed, ["a", "fail", "b"])
    assert next(found) == "a"
    with pytest.raises(Undecodable, match=r"^as told$"):
        list(found)


def test_a_child_reaches_stores_as_its_task_does() -> None:
    here = Options()
    with options.using(here):
        assert list(results(doomed, ["options"])) == [repr(here)]
