"""Look up modules by name, and load each at its first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class LazyModules(Mapping[str, T]):
    """Modules that implement one protocol, by name.

    `loads` has, for each name, the function that loads the module, or an object made of it. The order of the names is
    kept. Names can be listed and looked for without loading a module.
    """

    def __init__(self, loads: Mapping[str, Callable[[], Any]]) -> None:
        self.loads = dict(loads)

    def __getitem__(self, name: str) -> T:
        found: T = self.loads[name]()
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.loads

    def __iter__(self) -> Iterator[str]:
        return iter(self.loads)

    def __len__(self) -> int:
        return len(self.loads)
