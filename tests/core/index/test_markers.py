"""Who wrote a marker, and whether that process may still be at work."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest

from hive_bitmap.core.index import markers
from hive_bitmap.core.index.markers import GRACE_SECONDS, Author

HOST = socket.gethostname()


def test_this_process_is_at_work() -> None:
    this = Author.this_process()
    assert this.is_at_work(False) and this.is_at_work(True)
    old = Author(HOST, os.getpid(), time.time() - GRACE_SECONDS - 1)
    assert old.is_at_work(False) and not old.is_at_work(True)


def test_a_process_of_another_machine_is_taken_to_be_at_work_for_a_day() -> None:
    assert Author("elsewhere", 1, time.time()).is_at_work(False)
    assert not Author("elsewhere", 1, time.time() - GRACE_SECONDS - 1).is_at_work(False)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows in /proc when a process began")
def test_another_process_of_the_same_number_is_not_at_work_for_longer_than_a_day() -> None:
    this = Author.this_process()
    other = replace(this, process_start=this.process_start + 1)
    assert this.process_start and other.is_at_work(False)  # of another container of this name, perhaps
    old = time.time() - GRACE_SECONDS - 1
    assert replace(this, started=old).is_at_work(False) and not replace(other, started=old).is_at_work(False)
    assert Author.of(asdict(other), "m") == other and Author.of({**asdict(other), "process_start": "?"}, "m") != other


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the state of a process in /proc")
def test_a_process_that_has_ended_is_not_at_work_even_if_its_parent_has_not_noticed() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert not Author(HOST, ended.pid, time.time()).is_at_work(False)
    ended.wait()
    assert not Author(HOST, ended.pid, time.time()).is_at_work(False)


def test_a_process_of_another_container_on_this_host_is_taken_to_be_at_work_for_a_day() -> None:
    """Containers that share the host's name number their processes by themselves."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    other = Author(HOST, ended.pid, time.time(), pid_namespace="pid:[1]")
    assert other.is_at_work(False) and not replace(other, pid_namespace="").is_at_work(False)
    assert not replace(other, started=time.time() - GRACE_SECONDS - 1).is_at_work(False)
    assert Author.of(asdict(other), "m") == other


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows in /proc when a process began")
def test_a_process_knows_where_its_own_builds_are_at_work() -> None:
    this, folder = Author.this_process(), "file:/nowhere/of/this/test"
    assert this.is_this_process and not replace(this, pid=1).is_this_process
    assert not replace(this, process_start=this.process_start + 1).is_this_process
    assert not replace(this, process_start=0).is_this_process
    for complete in (False, True):
        assert not markers.is_in_work(folder, this, complete)
        for _ in range(2):  # two builds in one root
            markers.begin_work(folder)
        markers.end_work([folder])
        assert markers.is_in_work(folder, this, complete)
        markers.end_work([folder, "file:/never/begun"])
        assert not markers.is_in_work(folder, this, complete)
        assert markers.is_in_work(folder, Author("elsewhere", 1, time.time()), complete)
