"""Rows that are sent to the JVM as Arrow batches, read again as Arrow reads them; and keys that Spark evaluates.

That the JVM reads the same is for tests with Spark, which stands behind a stand-in here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import SparkLeaf
from hive_bitmap.spark.catalyst import arrow_batches
from hive_bitmap.spark.catalyst.arrow_batches import PLACE, batches, satisfying_keys, with_places
from hive_bitmap.spark.versions import arrow_schema

VALUES = {
    pa.bool_(): ([True, None, False], "boolean"),
    pa.int8(): ([-128, None, 127], "byte"),
    pa.int16(): ([-(2**15), None], "short"),
    pa.int32(): ([-(2**31), None, 2**31 - 1], "integer"),
    pa.int64(): ([-(2**63), None, 2**63 - 1], "long"),
    pa.float32(): ([0.5, None, float("inf")], "float"),
    pa.float64(): ([0.1, None, float("-inf")], "double"),
    pa.string(): (["", None, "é\0"], "string"),
    pa.binary(): ([b"", None, b"\xff"], "binary"),
    pa.decimal128(38, 18): ([Decimal("-1.000000000000000001"), None], "decimal(38,18)"),
    pa.date32(): ([date(1, 1, 1), None, date(9999, 12, 31)], "date"),
    pa.timestamp("us"): ([datetime(1900, 1, 1, 0, 0, 0, 1), None], "timestamp_ntz"),
    pa.timestamp("us", "UTC"): ([None, None], "timestamp"),
}


def read(sent: tuple[str, bytes]) -> pa.RecordBatch:
    """What arrives: the batch without its schema, which is Spark's as JSON."""
    schema, batch = sent
    return pa.ipc.read_record_batch(pa.py_buffer(batch), arrow_schema(StructType.fromJson(json.loads(schema))))


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_values_of_each_type_arrive_as_they_are(type: pa.DataType) -> None:
    values, name = VALUES[type]
    rows = pa.table({"v": pa.array(values, type), "w": pa.array([None] * len(values), type)})
    [sent] = batches(rows)
    assert [one["type"] for one in json.loads(sent[0])["fields"]] == [name, name]
    assert read(sent).to_pydict() == rows.to_pydict()


PIECES = st.lists(st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=7), max_size=5)


@given(pieces=PIECES, most=st.integers(1, 9))
def test_all_rows_arrive_in_their_order_in_batches_that_are_full(pieces: list[list[int | None]], most: int) -> None:
    rows = pa.table({"k": pa.chunked_array([pa.array(piece, pa.int64()) for piece in pieces], pa.int64())})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrow_batches, "BATCH_ROWS", most)
        found = [read(sent) for sent in batches(rows)]
    assert [value for batch in found for value in batch["k"].to_pylist()] == rows["k"].to_pylist()
    assert all(batch.num_rows == most for batch in found[:-1])  # however the table was cut
    assert len(found) == max(1, -(-rows.num_rows // most))  # one even if there is no row


def test_large_strings_arrive_as_strings() -> None:
    rows = pa.table({"s": pa.array(["a", None], pa.large_string()), "b": pa.array([b"a", None], pa.large_binary())})
    [sent] = batches(rows)
    assert read(sent).schema.types == [pa.string(), pa.binary()] and read(sent).to_pydict() == rows.to_pydict()


LEAF = SparkLeaf("(k % 2) = 0", "k", 4)
INT = Column("k", "int")
KEYS = pa.array([1, 2, None, 4, 2**31 - 2], pa.int32())


@dataclass
class Evaluating:
    """The request of the JVM and the DataFrame that it gives: `keeps` tells of which keys the expression is TRUE."""

    keeps: Callable[[Any], bool] = lambda key: key is not None and key % 2 == 0
    late: bool = False
    sent: list[tuple[int, int, str, bytes]] = field(default_factory=list)
    read: str = ""

    def isLate(self) -> bool:  # noqa: N802 - as in Java
        return self.late

    def satisfying(self, scan: int, expression: int, schema: str, batch: bytes) -> Evaluating:
        self.sent.append((scan, expression, schema, batch))
        return self

    def select(self, place: str) -> Evaluating:
        assert place == PLACE
        return self

    @property
    def _places(self) -> list[int]:
        rows = read(self.sent[-1][2:])
        return [place for key, place in zip(*rows.to_pydict().values(), strict=True) if self.keeps(key)][::-1]

    def collect(self) -> list[tuple[int]]:
        self.read = "collected"
        return [(place,) for place in self._places]

    def toArrow(self) -> pa.Table:  # noqa: N802
        self.read = "as Arrow"
        return pa.table({PLACE: pa.array(self._places, pa.int32())})


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Ask for the keys of which the leaf is TRUE; DataFrames of PySpark are those of the stand-in."""
    monkeypatch.setattr("pyspark.sql.DataFrame", lambda satisfied, spark: satisfied)
    nobody: Any = SimpleNamespace()

    def asked(request: Evaluating, keys: pa.Array = KEYS, column: Column = INT, leaf: SparkLeaf = LEAF) -> Any:
        return satisfying_keys(nobody, request, 3, leaf, column, keys)

    return asked


@pytest.mark.parametrize(("few", "read"), [(5, "collected"), (4, "as Arrow")])
def test_the_keys_of_which_the_expression_is_true(
    evaluate: Callable[..., Any], few: int, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_batches, "FEW_KEYS", few)
    monkeypatch.setattr(arrow_batches, "BATCH_ROWS", 1)  # keys are sent at once
    request = Evaluating()
    found = evaluate(request)
    assert sorted(found.to_pylist()) == [2, 4, 2**31 - 2] and found.type == KEYS.type
    [(scan, expression, _, _)] = request.sent
    assert (scan, expression, request.read) == (3, 4, read)
    assert evaluate(Evaluating(keeps=lambda key: False)).to_pylist() == []


def test_spark_is_not_asked_about_no_keys(evaluate: Callable[..., Any]) -> None:
    request = Evaluating()
    assert evaluate(request, KEYS[:0]).to_pylist() == [] and request.sent == []


@pytest.mark.parametrize(("type", "told"), [("char(3)", "char(3)"), ("varchar(9)", "varchar(9)"), ("string", None)])
def test_spark_is_told_of_columns_that_are_padded(evaluate: Callable[..., Any], type: str, told: str | None) -> None:
    request = Evaluating(keeps=lambda key: key == "a  ")
    assert evaluate(request, pa.array(["a  ", "b"]), Column("k", type)).to_pylist() == ["a  "]
    key, place = json.loads(request.sent[0][2])["fields"]
    assert key["metadata"].get("__CHAR_VARCHAR_TYPE_STRING") == told
    assert (key["type"], place["metadata"]) == ("string", {})


ERRORS = [AnalysisException("[DIVIDE_BY_ZERO] k\nat line 1"), pa.ArrowInvalid("no type\nat line 1")]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("late", [False, True])
def test_what_spark_cannot_evaluate_may_be_true_of_all_rows(
    evaluate: Callable[..., Any], error: Exception, late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(key: Any) -> bool:
        raise error

    request = Evaluating(fails, late)
    if late:  # the jobs were cancelled: nobody waits for an answer
        with pytest.raises(type(error)):
            evaluate(request)
        return
    with caplog.at_level(logging.INFO, arrow_batches.__name__):
        assert evaluate(request) is None
    [message] = caplog.messages
    assert message.startswith("Spark cannot evaluate (k % 2) = 0 over the keys, so all rows may match: ")
    assert message.endswith(str(error).splitlines()[0]) and "at line 1" not in message


def test_a_bug_is_not_taken_for_an_expression_that_spark_cannot_evaluate(evaluate: Callable[..., Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        evaluate(Evaluating(keeps=lambda key: bool(1 // 0)))


def test_keys_with_their_places() -> None:
    rows = with_places(Column("k", "int"), pa.array([7, None, 5], pa.int32()))
    assert rows.to_pydict() == {"k": [7, None, 5], PLACE: [0, 1, 2]}
    assert rows.schema.field(PLACE).type == pa.int32()
