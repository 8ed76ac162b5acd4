"""Who may read a file, or enter a folder: its mode, group and access control list, as far as its store has them."""

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
    """The mode of a file or folder, its group, and its access control list in the store's own form; empty if none.

    `defaults` is the list that a folder hands on to what is made in it.
    """

    mode: int
    group: int | str
    acl: tuple[Any, ...] = ()
    defaults: tuple[Any, ...] = ()

    @property
    def without_group(self) -> Access:
        """The same without what a group may do, also by an access control list, whose mask the group's bits are."""
        return Access(self.mode & ~GROUP, self.group)

    @property
    def readers(self) -> tuple[Any, ...]:
        """What files or folders have in common that let in the same readers, whoever owns them.

        >>> Access(0o644, 1).readers == Access(0o664, 2).readers, Access(0o640, 1).readers == Access(0o640, 2).readers
        (True, False)
        """
        group, others = self.mode >> 3 & 5, self.mode & 5
        return group, others, self.group if group != others or self.acl else "", self.acl

    @property
    def of_file(self) -> Access:
        """The same for a file that nobody executes, and that its owner may always read and replace."""
        return Access(self.mode & 0o666 | OWNER, self.group, self.acl)

    @property
    def of_own_folder(self) -> Access:
        """The same for a folder of ours, whose files stand for those of this folder.

        In a sticky folder others may add files, but not change those of others: then only the owner writes in ours.
        Where it is not sticky, whoever may write can replace the base files too, so nothing changes. (The bits of the
        group are the mask of an access control list.)
        """
        if not self.mode & STICKY:
            return self
        return Access(self.mode & ~(STICKY | SHARED_WRITE), self.group, self.acl)

    def within(self, above: Iterable[Access | None]) -> Access:
        """The same for a folder elsewhere, that nobody may enter who may not enter all of the folders `above` this one.

        None stands for one that cannot be looked at: it keeps all others out.

        >>> Access(0o755, 1).within([Access(0o750, 1)]), Access(0o755, 1).within([Access(0o711, 2), Access(0o700, 1)])
        (Access(mode=488, group=1, acl=(), defaults=()), Access(mode=448, group=1, acl=(), defaults=()))
        """
        return reduce(Access._inside, above, self)

    def written_like(self, others: Iterable[Access]) -> Access:
        """The same for a folder in which only those may write who may write in all the `others`, too.

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
        if (outer.group, outer.acl) != (self.group, self.acl):  # who is of the group here may be of any class there
            group = others = group and others and not outer.acl
        kept = self if group else self.without_group
        return kept if others else replace(kept, mode=kept.mode & ~OTHERS)


def strictest(files: Sequence[Access]) -> Access:
    """Return the access of a file that nobody may read who may not read all of `files`, of which there is one.

    >>> strictest([Access(0o644, 1), Access(0o600, 1)]), strictest([Access(0o640, 1), Access(0o640, 2)])
    (Access(mode=384, group=1, acl=(), defaults=()), Access(mode=384, group=1, acl=(), defaults=()))
    >>> strictest([Access(0o644, 1), Access(0o644, 2)]).mode == 0o644  # all may read both
    True
    """
    mode = reduce(lambda one, other: one & other, (file.mode for file in files))
    combined = Access(mode, files[0].group, files[0].acl)
    alike = len({(file.group, file.acl) for file in files}) == 1
    if not alike:  # somebody of one group may be among the others of another
        group = 0 if any(file.acl for file in files) else (mode & OTHERS) << 3
        combined = Access(mode & (~GROUP | group), files[0].group)
    return combined.of_file
