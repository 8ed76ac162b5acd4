"""Which partitions a spec, or some, choose; the oracle looks at each partition and each spec."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.columns import Column
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import NotFound
from hive_bitmap.spark.metastore.base_files import matching, matching_any

COLUMNS = ("p", "Q", "r")
BASE = Table(
    database="d", name="t", kind="EXTERNAL", partition_columns=tuple(Column(name, "string") for name in COLUMNS)
)
value = st.sampled_from(["1", "2", None])
partition = st.tuples(value, value, value)
spec = st.dictionaries(st.sampled_from(["p", "q", "R"]), value)


@given(st.lists(partition, unique=True), st.lists(spec, max_size=4))
def test_a_partition_is_chosen_if_it_has_the_values_of_a_spec(
    known: list[tuple[str | None, ...]], specs: list[dict[str, str | None]]
) -> None:
    named = [dict(zip("pqr", values, strict=True)) for values in known]
    wanted = [
        values
        for values, by_name in zip(known, named, strict=True)
        if any(all(by_name[name.lower()] == value for name, value in one.items()) for one in specs)
    ]
    assert matching_any(BASE, specs, known) == wanted
    for one in specs:
        if alone := matching_any(BASE, [one], known):
            assert matching(BASE, one, known) == alone
        else:
            with pytest.raises(NotFound, match=r"no partition \("):
                matching(BASE, one, known)


def test_a_spec_of_another_column_is_an_error() -> None:
    for specs in ([{"p": "1"}, {"pp": "1"}], [{"k": "1"}]):
        with pytest.raises(NotFound, match="partition column"):
            matching_any(BASE, specs, [])
    assert matching(BASE, None, [("1", "2", None)]) == [("1", "2", None)]
