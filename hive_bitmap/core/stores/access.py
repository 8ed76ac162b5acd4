"""Combine the permissions of files and folders: mode, group and access control list.

Some stores have no permissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

OWNER, GROUP, OTHERS = 0o600, 0o070, 0o007
STICKY, SHARED_WRITE = 0o1000, 0o022
_GROUP_ENTERS, _OTHERS_ENTER = 0o010, 0o001


@dataclass(frozen=True)
class Access:
    """The permissions of a file or folder.

    `acl` is the access control list of the file or folder, in the form of its store; empty without a list. If there is
    a list, the group bits of `mode` are the mask of the list, as in POSIX. `defaults` is the list that new entries of a
    folder inherit.
    """

    mode: int
    group: int | str
    acl: tuple[Any, ...] = ()
    defaults: tuple[Any, ...] = ()

    @property
    def without_group(self) -> Access:
        """This access without the permissions of the group and of the access control list."""
        return Access(self.mode & ~GROUP, self.group)

    @property
    def readers(self) -> tuple[Any, ...]:
        """A value that is equal for files or folders with the same readers.

        The owners of the files or folders may differ.

        >>> Access(0o644, 1).readers == Access(0o664, 2).readers, Access(0o640, 1).readers == Access(0o640, 2).readers
        (True, False)
        """
        group, others = self.mode >> 3 & 5, self.mode & 5
        return group, others, self.group if group != others or self.acl else "", self.acl

    @property
    def of_file(self) -> Access:
        """This access, for a file.

        Nobody may execute the file, and its owner may read and write it.
        """
        return Access(self.mode & 0o666 | OWNER, self.group, self.acl)

    @property
    def of_own_folder(self) -> Access:
        """The access of an index folder for a base folder with this access.

        In a sticky base folder, users cannot replace base files of other users. So users must not be able to replace
        index files either: only the owner may write in the index folder. If the base folder is not sticky, users who
        may write in it can replace base files anyway, so the index folder gets the same access.
        """
        if not self.mode & STICKY:
            return self
        return Access(self.mode & ~(STICKY | SHARED_WRITE), self.group, self.acl)

    def within(self, above: Iterable[Access | None]) -> Access:
        """Return this folder's access, without users whom one of its parents keeps out.

        `above` has the access of each parent. The result suits a copy of the folder in a place that these parents do
        not protect. None in `above` stands for a parent whose access is unknown: then only the owner may enter.

        >>> chains = [Access(0o750, 1)], [Access(0o711, 2), Access(0o700, 1)]
        >>> [oct(Access(0o755, 1).within(above).mode) for above in chains]
        ['0o750', '0o700']
        """
        return reduce(Access._inside, above, self)

    def written_like(self, others: Iterable[Access]) -> Access:
        """Return this access, writable only for users who may write in all `others`.

        >>> Access(0o777, 1).written_like([Access(0o755, 1)]).mode == 0o755
        True
        >>> Access(0o775, 1).written_like([Access(0o775, 2)]).mode == 0o755
        True
        """
        shared = SHARED_WRITE
        for other in others:
            shared &= other.mode if (other.group, other.acl) == (self.group, self.acl) else 0
        return replace(self, mode=self.mode & (~SHARED_WRITE | shared))

    def _inside(self, above: Access | None) -> Access:
        outer = above or Access(0, "")
        group, others = bool(outer.mode & _GROUP_ENTERS), bool(outer.mode & _OTHERS_ENTER)
        if (outer.group, outer.acl) != (self.group, self.acl):  # to the parent, members of this group may be others
            group = others = group and others and not outer.acl
        limited = self if group else self.without_group
        return limited if others else replace(limited, mode=limited.mode & ~OTHERS)


def strictest(files: Sequence[Access]) -> Access:
    """Return the access for a file that only readers of all `files` may read.

    There is at least one file.

    >>> strictest([Access(0o644, 1), Access(0o600, 1)]), strictest([Access(0o640, 1), Access(0o640, 2)])
    (Access(mode=384, group=1, acl=(), defaults=()), Access(mode=384, group=1, acl=(), defaults=()))
    >>> strictest([Access(0o644, 1), Access(0o644, 2)]).mode == 0o644  # all may read both
    True
    """
    mode = reduce(lambda first, second: first & second, (file.mode for file in files))
    combined = Access(mode, files[0].group, files[0].acl)
    alike = len({(file.group, file.acl) for file in files}) == 1
    if not alike:  # a member of one file's group may be among the others of another file
        group = 0 if any(file.acl for file in files) else (mode & OTHERS) << 3
        combined = Access(mode & (~GROUP | group), files[0].group)
    return combined.of_file
