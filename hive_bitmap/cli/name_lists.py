"""Parse lists of names and values on the command line.

A name that contains a comma is quoted in backticks, as in SQL.
"""

from __future__ import annotations

import re

import click

NAME = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`,]+?))\s*(?:,|$)")
PAIR = re.compile(
    r"\s*(?:`(?P<name_quoted>(?:[^`]|``)+)`|(?P<name>[^`,=]+?))\s*="
    r"\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<plain>[^',]*?))\s*(?:,|$)"
)


def split_names(text: str) -> list[str]:
    """Return the names in a comma-separated list.

    >>> split_names("origin, `a,b`,`tick``s`")
    ['origin', 'a,b', 'tick`s']
    """
    return [match["plain"] or match["quoted"].replace("``", "`") for match in _all(NAME, text, "names")]


def split_pairs(text: str) -> dict[str, str | None]:
    """Return the columns and values of a partition.

    NULL is None, and values may be quoted as in SQL.

    >>> split_pairs("month=1, `a,b`='x, y',c=NULL,d=")
    {'month': '1', 'a,b': 'x, y', 'c': None, 'd': ''}
    """
    pairs = {}
    for match in _all(PAIR, text, "NAME=VALUE"):
        name = match["name"] or match["name_quoted"].replace("``", "`")
        if match["text"] is not None:
            pairs[name] = match["text"].replace("''", "'")
        else:
            pairs[name] = None if match["plain"].upper() == "NULL" else match["plain"]
    return pairs


def _all(pattern: re.Pattern[str], text: str, what: str) -> list[re.Match[str]]:
    """Return the matches of all items of a list.

    Raises BadParameter if the text is not such a list.
    """
    matches: list[re.Match[str]] = []
    at = 0
    while not matches or text[matches[-1].end() - 1 : matches[-1].end()] == ",":
        match = pattern.match(text, at)
        if match is None:
            raise click.BadParameter(
                f"{text!r} is not a list of {what}, from {text[at:]!r} on; quote a name in backticks"
            )
        matches.append(match)
        at = match.end()
    return matches
