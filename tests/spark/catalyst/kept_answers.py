"""Digests of plain Spark's answers to the queries of the corpus: corpus/answers.json, by digests of their texts.

Most runs ask Spark none of these queries: a third of their time went into answers that never change. A digest is only
ever a reason not to ask Spark: one that is not right any more, as it may be in another version, fails no test.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hive_bitmap.spark.session import session
from tests import asking
from tests.spark.catalyst import star_queries

if TYPE_CHECKING:
    from tests.asking import Answer

WRITE = "make answers"
_FILE = star_queries.FOLDER / "answers.json"


def load() -> dict[str, str]:
    return dict(json.loads(_FILE.read_text()))


def key(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def digest(answer: Answer, *, ordered: bool) -> str:
    """Of names, types, nullability and metadata of the columns, and of the rows, in their order if that is total."""
    return key(repr(([repr(column) for column in answer.columns], answer.rows if ordered else sorted(answer.rows))))


def write() -> None:
    """Ask plain Spark each query, and write the digests of its answers."""
    with TemporaryDirectory() as folder:
        spark = session(Path(folder) / "warehouse", app_name="kept answers", master="local[2]")
        with star_queries.schema(spark, Path(folder) / "star"):
            kept = {
                key(query.text): digest(asking.by_spark(spark, query.text), ordered=query.ordered)
                for query in star_queries.CORPUS
            }
        spark.stop()
    _FILE.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    write()
