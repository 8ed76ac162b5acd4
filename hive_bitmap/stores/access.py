"""Who may read a file: its mode, group and access control list, as far as its store has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

OWNER, GROUP = 0o600, 0o070


@dataclass(frozen=True)
class Access:
    """The mode of a file or folder, its group, and its access control list in the store's own form; empty if none."""

    mode: int
    group: int | str
    acl: tuple[Any, ...] = ()

    @property
    def without_group(self) -> Access:
        """The same without what a group may do, also by an access control list, whose mask the group's bits are."""
        return Access(self.mode & ~GROUP, self.group)

    @property
    def of_file(self) -> Access:
        """The same for a file that nobody executes, and that its owner may always read and replace."""
        return Access(self.mode & 0o666 | OWNER, self.group, self.acl)


def strictest(files: Sequence[Access]) -> Access:
    """Return the access of a file that nobody may read who may not read all of `files`, of which there is one.

    >>> strictest([Access(0o644, 1), Access(0o600, 1)]), strictest([Access(0o640, 1), Access(0o640, 2)])
    (Access(mode=384, group=1, acl=()), Access(mode=384, group=1, acl=()))
    """
    mode = reduce(lambda one, other: one & other, (file.mode for file in files))
    combined = Access(mode, files[0].group, files[0].acl)
    alike = len({(file.group, file.acl) for file in files}) == 1
    return (combined if alike else combined.without_group).of_file
