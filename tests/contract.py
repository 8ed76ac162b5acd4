"""Choose the cases of a parametrised test that belong to the contract: one of each kind that docs/promises.md names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def contract(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """Return the cases, with the marker `contract` on the chosen ones.

    A case of several values may be chosen by its first value.
    """
    found, marked = [], set()
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        choice = next((number for number, one in enumerate(chosen) if one == case or one == values[0]), None)
        if choice is None:
            found.append(case)
        else:
            marked.add(choice)
            found.append(pytest.param(*values, marks=pytest.mark.contract))
    if len(marked) < len(chosen):
        missing = [one for number, one in enumerate(chosen) if number not in marked]
        raise ValueError(f"no case is {missing}")
    return found
