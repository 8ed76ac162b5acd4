"""Learn from finished reads how much slower or faster a machine is than the prices say.

Prices are measured on one machine. Other machines, stores and loads differ from it by a factor. It is learnt for each
kind of read: by Spark or by our readers, of a format, in a kind of store. The factor is the median of the latest
measurements, divided by what the prices alone expected. It is 1 until there are ENOUGH of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from threading import Lock

LEAST_SECONDS = 0.2  # shorter reads tell more about the planning and the clock than about prices
LEAST, MOST = 0.25, 4.0  # bounds of a factor
ENOUGH = 3  # measurements before a factor is used
REMEMBERED = 15  # latest measurements of each kind, so that a factor follows the load of the machine
STEP = 1.1  # a factor changes by at least so much, so that decisions by price stay valid for a while
MOST_KINDS = 64  # further kinds of read keep the factor 1


class Reader(Enum):
    """Who reads: Spark's own readers, or ours."""

    SPARK = "spark"
    OWN = "rows"


@dataclass(frozen=True)
class Learnt:
    """The learnt factor of a kind of read, and its measurements.

    Prices are multiplied by `factor`. `expected` are the seconds that the prices alone give for the latest measurement,
    and `measured` those that it took; `count` is the number of measurements, including forgotten ones.
    """

    factor: float = 1.0
    count: int = 0
    expected: float = 0.0
    measured: float = 0.0


@dataclass(frozen=True)
class Factors:
    """The learnt factors for reading a format in a kind of store.

    `spark` is that of Spark's readers, `own` that of ours.
    """

    store: str = ""
    format: str = ""
    spark: Learnt = Learnt()
    own: Learnt = Learnt()

    def of(self, reader: Reader) -> Learnt:
        """Return the learnt factor of a reader."""
        return self.spark if reader is Reader.SPARK else self.own

    def __str__(self) -> str:
        scans, reads = _sentence("Spark's scans take", self.spark), _sentence("reads of rows take", self.own)
        return "; ".join(filter(None, (scans, reads)))


def _sentence(what: str, learnt: Learnt) -> str:
    """Describe what is learnt; "" if there is no measurement.

    >>> _sentence("Spark's scans take", Learnt(2.0, 5, 0.4, 0.9))
    "Spark's scans take 2.0 times their price (the latest of 5: 900 ms of 400 ms)"
    """
    if not learnt.count:
        return ""
    latest = f"the latest of {learnt.count:,}: {learnt.measured * 1000:,.0f} ms of {learnt.expected * 1000:,.0f} ms"
    return f"{what} {learnt.factor:.1f} times their price ({latest})"


FROZEN = Factors()  # prices as they are


@dataclass
class _Measurements:
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    learnt: Learnt = Learnt()

    def note(self, expected: float, measured: float) -> bool:
        """Add a measurement; return whether the factor has changed."""
        self.ratios.append(measured / expected)
        before = after = self.learnt.factor
        if len(self.ratios) >= ENOUGH:
            wanted = min(max(median(self.ratios), LEAST), MOST)
            if not before / STEP < wanted < before * STEP:
                after = wanted
        self.learnt = Learnt(after, self.learnt.count + 1, expected, measured)
        return after != before


class LearntPrices:
    """The factors of an application, with a version that changes when one of them does."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kinds: dict[tuple[str, str, Reader], _Measurements] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """The number of changes of factors."""
        return self._version

    def factors(self, path: str, format: str) -> Factors:
        """Return the learnt factors for reading a format in the store of a path."""
        store = path.partition("/")[0].rstrip(":").lower() or "file"
        with self._lock:
            spark, own = (self._kinds.get((store, format, reader), _NOTHING).learnt for reader in Reader)
        return Factors(store, format, spark, own)

    def note(self, factors: Factors, reader: Reader, estimate: float, seconds: float) -> None:
        """Add the measurement of a read, which took `seconds`.

        `estimate` is the time in seconds that prices with these factors expected. Short reads teach nothing, and
        neither do reads priced with FROZEN factors.
        """
        if seconds < LEAST_SECONDS or estimate <= 0 or not factors.store:
            return
        kind = (factors.store, factors.format, reader)
        expected = estimate / factors.of(reader).factor
        with self._lock:
            if kind in self._kinds or len(self._kinds) < MOST_KINDS:
                self._version += self._kinds.setdefault(kind, _Measurements()).note(expected, seconds)

    def forget(self) -> None:
        """Forget all measurements, as if none had been made."""
        with self._lock:
            self._version += any(measured.learnt.factor != 1 for measured in self._kinds.values())
            self._kinds.clear()


_NOTHING = _Measurements()
PRICES = LearntPrices()  # of this process, which decides for one application
