"""Learn factors between prices and real times from finished reads.

Prices are measured on one machine. Other machines, stores and loads differ from this machine by a factor. A factor is
learnt for each kind of read. The kind is the reader (Spark's or ours), the format and the kind of store. Each measured
time is divided by the time that the prices alone predict. The factor is the median of the latest quotients.

Choices depend on the ratio of two factors: Spark's and ours. A factor that is not learnt yet is equal to the other
factor, or 1 if neither is learnt. Whether a read is measured depends on its expected time, never on its real time: if
only slow reads were measured, the factor would be too large. A kind of read with too large a factor would never be
chosen again, and so never be measured again. Therefore measurements expire.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import median
from threading import Lock

LEAST_SECONDS = 0.2  # least expected time of a measured read: planning and the clock distort shorter reads
LEAST, MOST = 0.25, 4.0  # bounds of a factor
ENOUGH = 3  # measurements before a factor is used
REMEMBERED = 15  # measurements kept of each kind, the latest, so that a factor follows the load of the machine
STEP = 1.1  # least ratio by which a factor changes, so that decisions by price stay valid for a while
MOST_AGE = 600.0  # seconds from its latest measurement until a kind of read is forgotten
MOST_KINDS = 64  # most kinds of read that are measured; others keep the factor 1


class Reader(Enum):
    """Who reads: Spark's own readers, or ours."""

    SPARK = "spark"
    OWN = "rows"


@dataclass(frozen=True)
class Learnt:
    """The learnt factor of a kind of read, and its latest measurement.

    Prices are multiplied by `factor`. The latest measured read took `measured` seconds; the prices alone predicted
    `expected` seconds. `count` is the number of all measurements, even if they no longer determine the factor.
    """

    factor: float = 1.0
    count: int = 0
    expected: float = 0.0
    measured: float = 0.0


@dataclass(frozen=True)
class Factors:
    """The learnt factors for reading a format in a kind of store.

    `spark` is the factor of Spark's readers. `own` is the factor of our readers. `store` is a scheme such as "s3a".
    """

    store: str = ""
    format: str = ""
    spark: Learnt = Learnt()
    own: Learnt = Learnt()

    def of(self, reader: Reader) -> Learnt:
        """Return the learnt factor of a reader."""
        return self.spark if reader is Reader.SPARK else self.own

    @property
    def pair(self) -> tuple[float, float]:
        """The factors of Spark's readers and of ours."""
        return self.spark.factor, self.own.factor

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


FROZEN = Factors()  # factors of 1


@dataclass
class _Measurements:
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    learnt: Learnt = Learnt()
    latest: float = 0.0  # when the latest measurement was added, a time of time.monotonic

    @property
    def is_enough(self) -> bool:
        """Whether there are enough measurements for a factor."""
        return len(self.ratios) >= ENOUGH

    def note(self, expected: float, measured: float) -> None:
        """Add the measurement of a read.

        The read took `measured` seconds; the prices alone predicted `expected` seconds.
        """
        self.ratios.append(measured / expected)
        self.latest = time.monotonic()
        factor = self.learnt.factor
        if self.is_enough:
            target = min(max(median(self.ratios), LEAST), MOST)
            factor = factor if factor / STEP < target < factor * STEP else target
        self.learnt = Learnt(factor, self.learnt.count + 1, expected, measured)


class LearntPrices:
    """The factors of an application, with a version that changes when a factor changes."""

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
            self._forget_old()
            return self._of(store, format)

    def _of(self, store: str, format: str) -> Factors:
        spark, own = (self._kinds.get((store, format, reader), _NOTHING) for reader in Reader)
        fallback = own if own.is_enough and not spark.is_enough else spark
        factors = [
            read.learnt if read.is_enough else replace(read.learnt, factor=fallback.learnt.factor)
            for read in (spark, own)
        ]
        return Factors(store, format, *factors)

    def _forget_old(self) -> None:
        """Forget each kind of read that has not been measured for MOST_AGE seconds."""
        oldest = time.monotonic() - MOST_AGE
        for kind in [kind for kind, measured in self._kinds.items() if measured.latest < oldest]:
            self._version += self._kinds.pop(kind).is_enough

    def note(self, factors: Factors, reader: Reader, estimate: float, seconds: float) -> None:
        """Add the measurement of a read.

        `reader` took `seconds` for the read. `estimate` is the time in seconds that prices with `factors` predicted.
        Reads with a short expected time are ignored, and so are reads priced with FROZEN factors.
        """
        kind, expected = (factors.store, factors.format, reader), estimate / factors.of(reader).factor
        if expected <= 0 or expected < LEAST_SECONDS or not factors.store:
            return
        with self._lock:
            if kind in self._kinds or len(self._kinds) < MOST_KINDS:
                before = self._of(factors.store, factors.format).pair
                self._kinds.setdefault(kind, _Measurements()).note(expected, seconds)
                self._version += self._of(factors.store, factors.format).pair != before

    def forget(self) -> None:
        """Forget all measurements, as if none had been made."""
        with self._lock:
            self._version += any(measured.learnt.factor != 1 for measured in self._kinds.values())
            self._kinds.clear()


_NOTHING = _Measurements()
PRICES = LearntPrices()  # of this process, which decides for one application
