"""Names on the command line: backticks around a name that holds a comma, as in SQL."""

from __future__ import annotations

import re

import click

NAME = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`,]+?))\s*(?:,|$)")
PAIR = re.compile(
    r"\s*(?:`(?P<name_quoted>(?:[^`]|``)+)`|(?P<name>[^`,=]+?))\s*="
    r"\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<plain>[^',]*?))\s*(?:,|$)"
)


def split_names(text: str) -> list[str]:
    """The names of a list.

    >>> split_names("origin, `a,b`,`tick``s`")
    ['origin', 'a,b', 'tick`s']
    """
    return [found["plain"] or found["quoted"].replace("``", "`") for found in _all(NAME, text, "names")]


def split_pairs(text: str) -> dict[str, str | None]:
    """The columns and values of a partition; NULL and values in quotes as in SQL.

    >>> split_pairs("month=1, `a,b`='x, y',c=NULL,d=")
    {'month': '1', 'a,b': 'x, y', 'c': None, 'd': ''}
    """
    pairs = {}
    for found in _all(PAIR, text, "NAME=VALUE"):
        name = found["name"] or found["name_quoted"].replace("``", "`")
        if found["text"] is not None:
            pairs[name] = found["text"].replace("''", "'")
        else:
            pairs[name] = None if found["plain"].upper() == "NULL" else found["plain"]
    return pairs


def _all(pattern: re.Pattern[str], text: str, what: str) -> list[re.Match[str]]:
    """The items of a list, one behind the other to its end."""
    found: list[re.Match[str]] = []
    at = 0
    while not found or text[found[-1].end() - 1 : found[-1].end()] == ",":
        match = pattern.match(text, at)
        if match is None:
            raise click.BadParameter(f"{text!r} is no list of {what} at {text[at:]!r}; quote a name in backticks")
        found.append(match)
        at = match.end()
    return found
