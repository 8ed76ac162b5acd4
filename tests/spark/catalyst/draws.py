"""Random choices that can be made again, and made simpler: what is drawn from them shrinks without knowing how.

The simplest option stands first wherever there is a choice. So a script of choices with a piece cut out, or set to
zero, draws something smaller.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Choices from a seed, or from a script of earlier ones; `made` are those made so far."""

    def __init__(self, rng: random.Random | None = None, script: Sequence[int] = ()) -> None:
        self._rng, self._script, self._names = rng, script, 0
        self.made: list[int] = []

    def number(self, limit: int) -> int:
        """A number from 0 up to, and without, a limit; a script that has ended says 0."""
        place = len(self.made)
        scripted = min(self._script[place], limit - 1) if place < len(self._script) else 0
        self.made.append(self._rng.randrange(limit) if self._rng is not None else scripted)
        return self.made[-1]

    def of(self, options: Sequence[T]) -> T:
        """One of some options, the first of which is the simplest."""
        return options[self.number(len(options))]

    def chance(self, percent: int) -> bool:
        """True so often; False is simpler."""
        return self.number(100) >= 100 - percent

    def name(self, start: str) -> str:
        """A name that has not been given before."""
        self._names += 1
        return f"{start}{self._names}"


def shrunk(script: Sequence[int], fails: Callable[[list[int]], bool], tries: int) -> list[int]:
    """The shortest and lowest script, found in so many tries, that still fails.

    >>> shrunk([5, 9, 1, 7, 3], lambda script: 7 in script, 100)
    [7]
    """
    best = list(script)
    for size in (32, 16, 8, 4, 2, 1, 1):
        place = 0
        while place < len(best):
            cut, zeroed = best[:place] + best[place + size :], [*best]
            zeroed[place : place + size] = [0] * len(best[place : place + size])
            for candidate in (cut, zeroed):
                if candidate != best and tries > 0:
                    tries -= 1
                    if fails(candidate):
                        best = candidate
                        break
            else:
                place += size
    return best
