"""Lists of names and values on the command line; a name that contains a comma is quoted in backticks, as in SQL."""

from __future__ import annotations

import re

import click

NAME = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`,]+?))\s*(?:,|$)")
PAIR = re.compile(
    r"\s*(?:`(?P<name_quoted>(?:[^`]|``)+)`|(?P<name>[^`,=]+?))\s*="
    r"\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<plain>[^',]*?))\s*(?:,|$)"
)


def split_names(text: str) -> list[str]:
    """Return the names of a comma-separated list.

    >>> split_names("origin, `a,b`,`tick``s`")
    ['origin', 'a,b', 'tick`s']
    """
    return [found["plain"] or found["quoted"].replace("``", "`") for found in _all(NAME, text, "names")]


def split_pairs(text: str) -> dict[str, str | None]:
    """Return the columns and values of a partition; NULL is None, and values may be quoted as in SQL.

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
    """Return the matches of all items of a list; raises BadParameter if the text is not such a list."""
    found: list[re.Match[str]] = []
    at = 0
    while not found or text[found[-1].end() - 1 : found[-1].end()] == ",":
        match = pattern.match(text, at)
        if match is None:
            raise click.BadParameter(f"{text!r} is no list of {what} at {text[at:]!r}; quote a name in backticks")
        found.append(match)
        at = match.end()
    return found
