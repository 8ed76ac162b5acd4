"""Retry transient errors of stores, and convert other errors.

Converted errors have one line and no secrets.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

from hive_bitmap.errors import StoreError

T = TypeVar("T")
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0  # seconds between attempts, doubled each time, with jitter
_MOST_CHARACTERS = 300  # of an error message
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_SECRETS = re.compile(
    r"((?:secret|password|token|signature|credential|accountkey|sig|authorization)[a-z_.-]*\W{1,4})([^\s,;&\"']+)",
    re.IGNORECASE,
)


def summary(error: BaseException) -> str:
    """Return a store's error as one line.

    The line has the code and the message of the error. Without a code, it is the first line of the error.

    >>> summary(ValueError("403 Forbidden: <Error><Code>AccessDenied</Code><Message>No.</Message></Error> trace"))
    'AccessDenied: No.'
    >>> summary(ValueError("no way\\n\\tat java.lang"))
    'no way'
    >>> summary(ValueError("GET /x?X-Amz-Security-Token=abc&y=1"))
    'GET /x?X-Amz-Security-Token=...&y=1'
    """
    text = str(error) or type(error).__name__
    if match := _CODE.search(text):
        message = ": ".join(part.strip() for part in match.groups() if part)
    else:
        line = text.strip().splitlines()[0]
        message = re.sub(r"RPCError\(\"(?:[a-z.]+\.)?(\w+)\", \"([^\\]*).*", r"\1: \2", line)
        if (status := _STATUS.search(text)) and status[1].strip() not in message:
            message = f"{message}: {status[1].strip()}"
    return _SECRETS.sub(r"\1...", message)[:_MOST_CHARACTERS].rstrip(": ")


def failed(what: str, error: BaseException, advice: str = "") -> StoreError:
    """Return the StoreError of a failed request.

    `what` says what was attempted. `error` is the store's answer. `advice` names the settings to check.
    """
    return StoreError(f"{what}: {summary(error)}" + (f" ({advice})" if advice else ""))


def not_installed(scheme: str, package: str, extra: str) -> StoreError:
    """Return the error for a client package that is not installed.

    `scheme` is the scheme of the paths in the store. `extra` is the extra of hive_bitmap that installs the package.
    """
    return StoreError(
        f"files of scheme {scheme} are read with the package {package}, which is not installed here: "
        f"pip install 'hive_bitmap[{extra}]', on every machine that runs tasks"
    )


def retried(request: Callable[[], T], is_transient: Callable[[Exception], bool], attempts: int) -> T:
    """Return the result of `request`, which is called again after transient errors.

    It is called at most `attempts` times. `is_transient` says whether an error is transient. Raises the first error
    that is not transient. If all attempts fail with transient errors, raises the last error.
    """
    for attempt in range(attempts - 1):
        try:
            return request()
        except Exception as error:
            if not is_transient(error):
                raise
            wait = min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)
            time.sleep(wait * random.uniform(0.5, 1.5))
    return request()
