"""Collecting what is wrong: all of it is counted, the first few are told in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

MOST_TOLD = 20


@dataclass
class Problems:
    """How many problems there are, and the words for the first MOST_TOLD of them."""

    count: int = 0
    told: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """One more problem."""
        self.add_many(1, lambda _: text)

    def add_many(self, count: int, tell: Callable[[int], str]) -> None:
        """`count` more problems; `tell(i)` words the i-th of them and is asked for the first few only."""
        self.told += [tell(number) for number in range(min(count, MOST_TOLD - len(self.told)))]
        self.count += count

    def add_all(self, others: Problems, prefix: str = "") -> None:
        """The problems of a part, each behind `prefix`."""
        self.told += [prefix + text for text in others.told[: MOST_TOLD - len(self.told)]]
        self.count += others.count
