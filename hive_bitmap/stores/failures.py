"""Errors of stores: told in one sentence, without secrets, and tried again with a bound where they may pass."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

from hive_bitmap.errors import StoreError

T = TypeVar("T")
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0  # seconds between attempts: each is twice the one before, more or less
_MOST = 300  # characters of what a store says
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_SECRETS = re.compile(
    r"((?:secret|password|token|signature|credential|accountkey|sig|authorization)[a-z_.-]*\W{1,4})([^\s,;&\"']+)",
    re.IGNORECASE,
)


def told(error: BaseException) -> str:
    """What a store said, in a line: its own code and message where it sent such, else how the error begins.

    >>> told(ValueError("403 Forbidden: <Error><Code>AccessDenied</Code><Message>No.</Message></Error> trace"))
    'AccessDenied: No.'
    >>> told(ValueError("no way\\n\\tat java.lang"))
    'no way'
    >>> told(ValueError("GET /x?X-Amz-Security-Token=abc&y=1"))
    'GET /x?X-Amz-Security-Token=...&y=1'
    """
    text = str(error) or type(error).__name__
    if found := _CODE.search(text):
        said = ": ".join(part.strip() for part in found.groups() if part)
    else:
        line = text.strip().splitlines()[0]
        said = re.sub(r"RPCError\(\"(?:[a-z.]+\.)?(\w+)\", \"([^\\]*).*", r"\1: \2", line)
        if (status := _STATUS.search(text)) and status[1].strip() not in said:
            said = f"{said}: {status[1].strip()}"
    return _SECRETS.sub(r"\1...", said)[:_MOST].rstrip(": ")


def failed(what: str, error: BaseException, advice: str = "") -> StoreError:
    """The error that tells what was asked of a store, what it said, and which setting to look at."""
    return StoreError(f"{what}: {told(error)}" + (f" ({advice})" if advice else ""))


def not_installed(scheme: str, package: str, extra: str) -> StoreError:
    """The error of a store whose client is missing here."""
    return StoreError(
        f"files of scheme {scheme} are read with the package {package}, which is not installed here: "
        f"pip install 'hive_bitmap[{extra}]', on every machine that runs tasks"
    )


def repeated(ask: Callable[[], T], passing: Callable[[Exception], bool], attempts: int) -> T:
    """What `ask` returns, tried so often as long as its errors are `passing`; raises the last of them."""
    for attempt in range(attempts - 1):
        try:
            return ask()
        except Exception as error:
            if not passing(error):
                raise
            wait = min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)
            time.sleep(wait * random.uniform(0.5, 1.5))
    return ask()
