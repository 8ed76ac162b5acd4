"""Format figures for people: shares, sizes, times and more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from hive_bitmap.core.planning.plan import Plan
from hive_bitmap.core.planning.strategy import Strategy


def measures(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Return how much a plan reads, as a table of texts.

    The columns are: what is counted, the number to read, the total number, and the share. A dash stands for an unknown
    figure. The lines are for files, blocks, bytes and rows. If the index holds the answer, only files that are read
    whole count as read, and the last line has the number of counted rows.
    """
    if not plan.looked_up:
        return [(word, "-", "-", "-") for word in ("files", "blocks", "bytes", "rows")]
    answered = plan.strategy == Strategy.INDEX_ONLY
    bytes_kept = int(plan.files["size"].to_numpy()[plan.scanned_files].sum()) if answered else plan.bytes_selected
    counts = [
        ("files", int(plan.kept_files.sum()), len(plan.files)),
        ("blocks", plan.kept_blocks, plan.blocks_total),
        ("rows counted" if answered else "rows", plan.rows_selected, plan.rows_total),
    ]
    lines = [(word, thousands(part), thousands(total), percent(part, total)) for word, part, total in counts]
    byte_line = (
        "bytes",
        size(bytes_kept or 0),
        size(plan.bytes_total or 0),
        percent(bytes_kept, plan.bytes_total),
    )
    return [*lines[:2], byte_line, lines[2]]


def read_by_answer(plan: Plan) -> str:
    """Describe how many files the strategy `index only` reads whole.

    These are the files for which the index has no answer. Return "" for any other strategy, and if nothing was looked
    up.
    """
    if plan.strategy != Strategy.INDEX_ONLY or not plan.looked_up:
        return ""
    whole = int(plan.scanned_files.sum())
    read = f"{counted(whole, 'file')} whole" if whole else "no file"
    return f"the index answers, and reads {read}"


def by_reason(counted: Iterable[Iterable[tuple[str, int]]]) -> dict[str, int]:
    """Add up several counts of reasons; the most frequent reason comes first.

    >>> by_reason([[("new", 1)], [("changed", 3), ("new", 1)]])
    {'changed': 3, 'new': 2}
    """
    total: Counter[str] = Counter()
    for counts in counted:
        total.update(dict(counts))
    return dict(total.most_common())


def reasons(counts: Mapping[str, int]) -> str:
    """Return a text that lists reasons with their counts.

    >>> reasons({"changed": 3000, "new": 2})
    '3,000 changed, 2 new'
    """
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items())


def percent(part: float | None, whole: float | None) -> str:
    """Return the share of `part` in `whole`, in percent.

    The text is `0 %` only if the share is exactly 0, and `100 %` only if it is exactly 1. It is `-` if a number is
    None, or if `whole` is 0.

    >>> [percent(0, 9), percent(1, 9), percent(1, 90_000), percent(8_999, 9_000), percent(9, 9), percent(0, 0)]
    ['0 %', '11 %', '<0.1 %', '>99 %', '100 %', '-']
    """
    if part is None or not whole:
        return "-"
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "<0.1 %"
    if 99 < share < 100:
        return ">99 %"
    return f"{share:.1f} %" if share < 10 and share != round(share) else f"{share:.0f} %"


def size(count: int) -> str:
    """Return a number of bytes in decimal units.

    >>> [size(0), size(999), size(1_234_567)]
    ['0 B', '999 B', '1.2 MB']
    """
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 99.5 else f"{value:.1f} {units[0]}"


def thousands(value: int | None) -> str:
    """Return a number with commas between thousands; None is a dash.

    >>> thousands(336776), thousands(None)
    ('336,776', '-')
    """
    return "-" if value is None else f"{value:,}"


def or_dash(text: str | None) -> str:
    """Return the text; a dash if the text is empty or None."""
    return text or "-"


def counted(number: int, what: str) -> str:
    """Return a text with a number and a noun.

    `what` is the noun in the singular.

    >>> [counted(1, "file"), counted(0, "file"), counted(1234, "file")]
    ['1 file', '0 files', '1,234 files']
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def seconds(value: float) -> str:
    """Return a duration as text, in milliseconds if it is less than a second.

    >>> [seconds(0.0042), seconds(0.25), seconds(12.34)]
    ['4 ms', '250 ms', '12.3 s']
    """
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def moment(since_1970: float) -> str:
    """Return a time in UTC, given in seconds since 1970.

    >>> moment(86400.5)
    '1970-01-02T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(since_1970, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def of_all(part: int, whole: int) -> str:
    """Return a text such as `12 of 41,000 rows`.

    >>> of_all(12, 41_000)
    '12 of 41,000 rows'
    """
    return f"{part:,} of {whole:,} rows"


def deleted(count: int) -> str:
    """Say how many indexed base files no longer exist."""
    return "1 indexed file no longer exists" if count == 1 else f"{count:,} indexed files no longer exist"
