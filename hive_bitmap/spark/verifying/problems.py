"""A collection of problems: all are counted, the first few are described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

MOST_MESSAGES = 20


@dataclass
class Problems:
    """The number of problems, and the messages of the first MOST_MESSAGES."""

    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, message: str) -> None:
        """Add one problem."""
        self.add_many(1, lambda _: message)

    def add_many(self, count: int, message: Callable[[int], str]) -> None:
        """Add `count` problems.

        `message(i)` describes the i-th and is called for the first few only.
        """
        self.messages += [message(number) for number in range(min(count, MOST_MESSAGES - len(self.messages)))]
        self.count += count

    def add_all(self, problems: Problems, prefix: str = "") -> None:
        """Add all of these problems, each message with a prefix."""
        self.messages += [prefix + message for message in problems.messages[: MOST_MESSAGES - len(self.messages)]]
        self.count += problems.count
