"""The definition of an index: what makes one, what is refused and why, and its form as properties of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_bitmap.core.bitmaps import ENCODINGS
from hive_bitmap.core.columns import Column
from hive_bitmap.core.index import definition as definitions
from hive_bitmap.core.index.aggregate_columns import FUNCTIONS, Aggregate
from hive_bitmap.core.index.definition import (
    BY_NAME,
    COMPRESSIONS,
    POINTER,
    PREFIX,
    REFRESH_INTERVAL,
    SEGMENT,
    TYPES,
    Definition,
    define,
    from_properties,
    from_table,
    schema_crc,
    stored_columns,
    to_properties,
    valid_schemas,
)
from hive_bitmap.core.index.key_columns import KEY_TYPES
from hive_bitmap.core.table_info import Table
from hive_bitmap.errors import AlreadyExists, HiveBitmapError, InvalidProperty, NotFound, Unsupported

TABLE = Table(
    database="db",
    name="t",
    kind="MANAGED",
    provider="parquet",
    columns=tuple(Column(name, type) for name, type in (("id", "bigint"), ("Origin", "string"), ("price", "double"))),
    partition_columns=(Column("year", "int"),),
    location="file:/w/t",
)
AGGREGATES = (
    Aggregate("count"),
    *(Aggregate(function, Column("v", "decimal(10,2)")) for function in FUNCTIONS),
    Aggregate("count", Column("s", "string")),
)
SMALL = Definition(name="i", database="db", table="t", columns=(Column("k", "int"),), root="file:/r")


def with_column(name: str, type: str, **more: Any) -> Table:
    return replace(TABLE, columns=(*TABLE.columns, Column(name, type, **more)))


def index_table(definition: Definition, **changes: Any) -> Table:
    """Return the index table that a definition makes."""
    made = Table(
        database=definition.database,
        name="x",
        kind="EXTERNAL",
        columns=(*definition.columns, *stored_columns(definition)),
        partition_columns=(SEGMENT,),
        properties=to_properties(definition),
    )
    return replace(made, **changes)


class TestDefine:
    def test_what_is_not_said_is_the_default(self) -> None:
        assert define(TABLE, ["id"]) == Definition(
            name="id",
            database="db",
            table="t",
            columns=(Column("id", "bigint"),),
            type="BITMAP",
            encoding="gap",
            compression="zstd",
            index_table="db__t_id__",
            refresh_interval="30 seconds",
            partitioned_by=(Column("year", "int"),),
        )

    def test_columns_are_found_ignoring_case_and_come_in_the_order_of_the_table(self) -> None:
        made = define(TABLE, ["PRICE", "origin"])
        assert made.column_names == ("Origin", "price") and made.name == "origin_price"
        assert made.index_table == "db__t_origin_price__" and made.has_default_table

    def test_what_is_said_is_stored_as_readers_expect_it(self) -> None:
        made = define(
            TABLE,
            ["id"],
            name="By_ID",
            type="bitmap",
            encoding="Roaring",
            compression="SNAPPY",
            index_table="Own",
            auto_refresh=True,
            refresh_interval=" 5 Minutes ",
            properties={"team": "a"},
        )
        assert (made.name, made.type, made.encoding, made.compression) == ("by_id", "BITMAP", "roaring", "snappy")
        assert (made.index_table, made.has_default_table) == ("own", False)
        assert (made.refresh_interval, made.refresh_seconds) == ("5 minutes", 300)
        assert made.properties == (("team", "a"),)

    @pytest.mark.parametrize(
        ("given", "index_database", "named", "pointer"),
        [
            (None, "", ("db", "db__t_id__"), ""),
            (None, "DB", ("db", "db__t_id__"), ""),
            (None, " Idx ", ("idx", "db__t_id__"), "idx.db__t_id__"),
            ("own", "idx", ("db", "own"), "own"),
            ("Idx.own", "", ("idx", "own"), "idx.own"),
            ("db.own", "idx", ("db", "own"), "own"),
            ("db.db__t_id__", "idx", ("db", "db__t_id__"), ""),
        ],
    )
    def test_the_place_of_the_index_table(
        self, given: str | None, index_database: str, named: tuple[str, str], pointer: str
    ) -> None:
        made = define(TABLE, ["id"], index_table=given, index_database=index_database)
        assert (made.index_table_database, made.index_table) == named and made.full_index_table == ".".join(named)
        assert made.needs_pointer == bool(pointer) and made.pointer == (pointer or named[1])
        base = replace(TABLE, properties={POINTER: f"x,{made.pointer},a.b.c,$"})
        assert definitions.pointers(base) == {("db", "x"), named}
        there = index_table(made, name=made.index_table, database=made.index_table_database)
        assert definitions.from_table(there) == made
        assert definitions.from_table(replace(there, database="other")) is None

    @pytest.mark.parametrize(
        ("arguments", "kind", "message"),
        [
            (
                {"encoding": "roring"},
                InvalidProperty,
                f"unknown encoding 'roring'; known: {', '.join(ENCODINGS)}; did you mean 'roaring'?",
            ),
            ({"encoding": "zzz"}, InvalidProperty, f"unknown encoding 'zzz'; known: {', '.join(ENCODINGS)}"),
            (
                {"compression": "ztsd"},
                InvalidProperty,
                "unknown compression 'ztsd'; known: zstd, snappy, gzip; did you mean 'zstd'?",
            ),
            (
                {"type": "compakt"},
                InvalidProperty,
                "unknown type 'COMPAKT'; known: BITMAP, COMPACT, AGGREGATE; did you mean 'COMPACT'?",
            ),
            ({"properties": {"encodng": "x"}}, InvalidProperty, "unknown property 'encodng'; did you mean 'encoding'?"),
            (
                {"properties": {"Encoding": "gap"}},
                InvalidProperty,
                "'Encoding' is not a user-defined property: pass it as the argument encoding",
            ),
            (
                {"name": "a-b"},
                InvalidProperty,
                "'a-b' cannot name an index or its table: names are letters, digits and _",
            ),
            (
                {"index_table": "a.b.c"},
                InvalidProperty,
                "'a.b' cannot name an index or its table: names are letters, digits and _",
            ),
            ({"index_table": "a."}, InvalidProperty, "'a.' is not the name of a table: use table or database.table"),
            (
                {"index_database": "a-b"},
                InvalidProperty,
                "'a-b' cannot name an index or its table: names are letters, digits and _",
            ),
            (
                {"type": "compact", "auto_refresh": True, "name": "c"},
                InvalidProperty,
                "index c is COMPACT, which readers expect to change only when it is rebuilt: auto_refresh is for "
                "BITMAP and AGGREGATE",
            ),
            ({"refresh_interval": "0.5s"}, InvalidProperty, "refresh_interval is '0.5s'; it must be at least 1 second"),
            (
                {"refresh_interval": "soon"},
                InvalidProperty,
                "'soon' is not a length of time: write a number and a unit, such as 30 seconds or 5m",
            ),
        ],
    )
    def test_an_unknown_value_is_refused_with_those_that_are_known(
        self, arguments: dict[str, Any], kind: type[HiveBitmapError], message: str
    ) -> None:
        with pytest.raises(kind) as error:
            define(TABLE, ["id"], **arguments)
        assert str(error.value) == message

    @pytest.mark.parametrize(
        ("table", "columns", "kind", "message"),
        [
            (TABLE, [], InvalidProperty, "an index needs at least one column"),
            (
                TABLE,
                ["orgin"],
                NotFound,
                "no column 'orgin' in table db.t; known: id, Origin, price; did you mean 'Origin'?",
            ),
            (
                TABLE,
                ["YEAR"],
                Unsupported,
                "column 'YEAR' partitions table db.t: partitions are pruned without an index",
            ),
            (
                with_column("m", "map<string,int>"),
                ["m"],
                Unsupported,
                f"column 'm' of table db.t is map<string,int>: keys are {', '.join(KEY_TYPES)}",
            ),
            (
                with_column("c", "string collate UTF8_LCASE"),
                ["c"],
                Unsupported,
                "column 'c' of table db.t is string collate UTF8_LCASE: collated strings cannot be keys",
            ),
            (
                with_column("d", "int", default=True),
                ["d"],
                Unsupported,
                "column 'd' of table db.t has a default value, which old files do not hold",
            ),
            (
                with_column("_Bitmaps", "binary"),
                ["_bitmaps"],
                Unsupported,
                "column '_Bitmaps' of table db.t has the name of a column of every index table",
            ),
            (
                with_column("hive_bitmap_x", "int"),
                ["hive_bitmap_x"],
                Unsupported,
                "column 'hive_bitmap_x' of table db.t begins with hive_bitmap, which is reserved: rename it",
            ),
            (
                with_column("${a}", "int"),
                ["${a}"],
                Unsupported,
                "column '${a}' of table db.t contains ${, which begins a variable in SQL",
            ),
            (
                replace(TABLE, partition_columns=(Column("p", "interval day"),)),
                ["id"],
                Unsupported,
                "table db.t is partitioned by 'p' (interval day), which index tables do not support",
            ),
            (
                index_table(SMALL),
                ["k"],
                Unsupported,
                "table db.x is the index table of i on db.t: index the base table",
            ),
        ],
    )
    def test_what_cannot_be_indexed_is_refused_with_the_reason(
        self, table: Table, columns: list[str], kind: type[HiveBitmapError], message: str
    ) -> None:
        with pytest.raises(kind) as error:
            define(table, columns)
        assert str(error.value) == message

    @pytest.mark.parametrize("type", [*KEY_TYPES, "decimal(10,2)", "varchar(9)", "char(3)"])
    def test_each_type_of_keys_can_be_one(self, type: str) -> None:
        assert define(with_column("k", type), ["k"]).columns == (Column("k", type),)

    def test_two_indexes_of_one_build_have_tables_of_their_own(self) -> None:
        first, second = define(TABLE, ["id"]), define(TABLE, ["price"], index_table="db__t_id__")
        definitions.require_distinct([first, define(TABLE, ["price"])])
        with pytest.raises(AlreadyExists, match="two of the indexes would have the table db__t_id__: build them"):
            definitions.require_distinct([first, second])


@pytest.mark.parametrize(
    ("key", "own"),
    [("encoding", "encoding"), ("AUTO_REFRESH", "auto_refresh"), ("owner", None), ("prop1", None), ("x", None)],
)
def test_own_properties_are_told_from_those_of_users(key: str, own: str | None) -> None:
    assert definitions.own_property(key) == own


@pytest.mark.parametrize("key", ["hive_bitmap.encoding", "autorefresh", "refresh-interval", "enabeld"])
def test_a_likely_misspelling_is_no_property_of_a_user(key: str) -> None:
    with pytest.raises(InvalidProperty, match=f"unknown property '{key}'; did you mean '"):
        definitions.own_property(key)


def test_a_flag_is_true_or_false_and_nothing_else() -> None:
    assert definitions.flag("enabled", " TRUE ") and not definitions.flag("enabled", "false")
    with pytest.raises(InvalidProperty, match="unknown value of enabled 'yes'; known: true, false"):
        definitions.flag("enabled", "yes")


NAMES = st.text(min_size=1, max_size=6)
DEFINITIONS = st.builds(
    Definition,
    name=NAMES,
    database=NAMES.filter(lambda name: "." not in name),
    table=NAMES,
    columns=st.lists(st.builds(Column, NAMES, st.sampled_from(KEY_TYPES)), max_size=3).map(tuple),
    type=st.sampled_from(TYPES),
    encoding=st.sampled_from(list(ENCODINGS)),
    compression=st.sampled_from(COMPRESSIONS),
    root=st.text(max_size=6),
    comment=st.text(max_size=6),
    where=st.text(max_size=6),
    enabled=st.booleans(),
    next_encoding=st.sampled_from(["", *ENCODINGS]),
    auto_refresh=st.booleans(),
    refresh_interval=st.sampled_from([REFRESH_INTERVAL, "5m", "1.5 hours", "90"]),
    properties=st.lists(st.tuples(NAMES, st.text(max_size=6)), max_size=2).map(tuple),
    id=st.sampled_from(["", "1" * 32]),
    partitioned_by=st.lists(st.builds(Column, NAMES, st.sampled_from(KEY_TYPES)), max_size=2).map(tuple),
    version=st.sampled_from(["3", "1"]),
    index_database=st.sampled_from(["", "idx"]),
    aggregates=st.sampled_from([(), AGGREGATES[:1], AGGREGATES]),
).map(lambda definition: replace(definition, aggregates=AGGREGATES) if definition.counts_files else definition)


class TestProperties:
    @given(DEFINITIONS, st.dictionaries(NAMES, st.text(max_size=3), max_size=2))
    def test_a_definition_is_what_its_properties_say_whatever_else_a_table_has(
        self, definition: Definition, others: dict[str, str]
    ) -> None:
        stored = to_properties(replace(definition, index_table="x"))
        assert all(key.startswith(PREFIX) and isinstance(value, str) for key, value in stored.items())
        assert from_properties({**others, **stored, POINTER: "a,b"}) == definition

    @given(DEFINITIONS, st.data())
    def test_edited_properties_are_no_definition(self, definition: Definition, data: st.DataObject) -> None:
        stored = to_properties(definition)
        key = data.draw(st.sampled_from(sorted(stored)))
        value = data.draw(st.one_of(st.text(max_size=6), st.sampled_from([*stored.values(), "true", "false", "[]"])))
        assert from_properties({**stored, key: value}) in (None, definition)  # there may be two ways to write the same
        if definition.comment != value:
            assert from_properties({**stored, f"{PREFIX}comment": value}) is None
        removed = from_properties({one: text for one, text in stored.items() if one != key})
        if key == f"{PREFIX}crc32":
            assert removed == definition  # of an early version
        else:
            assert removed is None or removed == definition

    @given(
        st.dictionaries(
            st.sampled_from(sorted(to_properties(replace(SMALL, id="1", next_encoding="gap", auto_refresh=True)))),
            st.one_of(st.text(max_size=4), st.sampled_from(["1", "[]", "[[1, 2]]", '[["k"]]', "{}", "null", "db.t"])),
        ),
        st.booleans(),
    )
    def test_whatever_is_stored_there_is_a_definition_or_none(self, edits: dict[str, str], unchecked: bool) -> None:
        stored = to_properties(SMALL)
        if unchecked:
            del stored[f"{PREFIX}crc32"]
        found = from_properties({**stored, **edits})
        assert found is None or isinstance(found, Definition)
        assert found is None or all(isinstance(column.type, str) for column in found.columns)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("version", "2"),
            ("version", "4"),
            ("features", "several_keys"),
            ("aggregates", "null"),
            ("aggregates", '[["avg", ["v", "int"]]]'),
            ("aggregates", '[["sum", ["v", "int"]]]'),
            ("aggregates", '[["sum"]]'),
            ("aggregates", '[["count", ["v", "decimal(77,1)"]], ["sum", ["v", "decimal(77,1)"]]]'),
            ("aggregates", '[["count", ["v", "decimal(a)"]], ["min", ["v", "decimal(a)"]]]'),
            ("type", "TREE"),
            ("encoding", "lz4"),
            ("columns", "[" * 100_000),
            ("columns", "null"),
            ("columns", '[["k", 1]]'),
            ("columns", '[["k", "int", "x"]]'),
            ("refresh_interval", "soon"),
            ("properties", "{"),
        ],
    )
    def test_what_this_version_does_not_know_is_no_definition_even_unchecked(self, key: str, value: str) -> None:
        stored = to_properties(SMALL)
        del stored[f"{PREFIX}crc32"]
        assert from_properties(stored) == SMALL
        assert from_properties({**stored, PREFIX + key: value}) is None

    def test_aggregated_columns_of_lakes_keep_their_names_in_files_and_ids(self) -> None:
        for source, column in (
            ("delta", Column("v", "int", file_name="col-1")),
            ("iceberg", Column("v", "decimal(5,1)", field_id=7)),
        ):
            aggregates = tuple(Aggregate(function, column) for function in FUNCTIONS)
            definition = replace(SMALL, source=source, aggregates=aggregates)
            stored = to_properties(definition)
            assert from_properties(stored) == definition
            assert from_properties({**stored, f"{PREFIX}aggregates": stored[f"{PREFIX}aggregates"][:-9]}) is None
            base = replace(TABLE, columns=(Column("k", "int"), column))
            assert definition.read_columns(base) == (*SMALL.columns, column)
            for other in (replace(column, field_id=9), replace(column, file_name="x"), replace(column, default=True)):
                assert definition.read_columns(replace(base, columns=(*SMALL.columns, other))) == SMALL.columns

    def test_a_table_without_them_is_no_index_table(self) -> None:
        assert from_properties({}) is None and from_table(TABLE) is None
        assert not definitions.has_properties(TABLE)
        assert not definitions.has_properties(replace(TABLE, properties={POINTER: "x", "comment": "y"}))
        assert definitions.has_properties(index_table(SMALL))

    @pytest.mark.parametrize(
        "how", [*({"encoding": name} for name in ENCODINGS), {"type": "COMPACT"}, {"aggregates": AGGREGATES}]
    )
    def test_an_index_table_has_the_columns_of_its_definition(self, how: dict[str, Any]) -> None:
        definition = replace(SMALL, **how)
        table = index_table(definition)
        found = from_table(table)
        assert found == replace(definition, index_table="x")
        partitioned = replace(table, columns=(*table.columns, Column("p", "int")))
        upper = replace(table, columns=tuple(Column(column.name.upper(), column.type) for column in table.columns))
        assert from_table(partitioned) == from_table(upper) == found
        for changed in (
            replace(table, database="other"),
            replace(table, columns=table.columns[:-1]),
            replace(table, columns=(Column("k", "bigint"), *table.columns[1:])),
            replace(table, columns=(Column("l", "int"), *table.columns[1:])),
            replace(table, columns=table.columns[::-1]),
        ):
            assert from_table(changed) is None


def test_the_columns_behind_the_keys_are_those_of_the_encoding() -> None:
    kinds = {
        name: [(column.name, column.type) for column in stored_columns(replace(SMALL, encoding=name))]
        for name in ENCODINGS
    }
    place = [("_bucketname", "string"), ("_offset", "bigint")]
    assert kinds == {
        "plain": [*place, ("_bitmaps", "binary")],
        "gap": [*place, ("_bitmaps", "binary"), ("_gap_lengths", "array<int>")],
        "ewah": [*place, ("_bitmaps", "array<bigint>")],
        "roaring": [*place, ("_bitmaps", "binary")],
    }
    compact = replace(SMALL, type="COMPACT")
    assert stored_columns(compact) == [Column("_bucketname", "string"), Column("_offsets", "array<bigint>")]
    assert not compact.has_bitmaps and compact.bitmap_encoding is None and compact.bitmap_fields == ()
    assert SMALL.has_bitmaps and SMALL.bitmap_encoding == "gap"


def test_the_next_encoding_is_that_of_the_renewed_definition() -> None:
    assert SMALL.renewed(TABLE) == SMALL
    renewed = replace(SMALL, next_encoding="roaring").renewed(TABLE)
    assert renewed == replace(SMALL, encoding="roaring") and renewed.renewed(TABLE) == renewed


def test_names_in_sql_are_quoted() -> None:
    named = replace(SMALL, database="d`b", index_table="t x")
    assert named.sql_name == "`d``b`.`t x`" and named.spark_name == "spark_catalog.`d``b`.`t x`"
    assert named.full_table == "d`b.t"
    apart = replace(named, index_database="i`x")
    assert apart.sql_name == "`i``x`.`t x`" and apart.spark_name == "spark_catalog.`i``x`.`t x`"


class TestSchemas:
    """Under which columns of the base table a file stays indexed."""

    @pytest.mark.parametrize(
        ("format", "reading", "columns", "stays"),
        [
            ("parquet", (), "a:int b:int", True),
            ("parquet", (), "b:string", True),
            ("orc", (), "a:int b:int", True),
            ("orc", (), "a:int b:int c:int", True),
            ("orc", (), "b:int a:int", False),
            ("orc", (), "a:int", False),
            ("orc", (), "a:bigint b:int", False),
            ("textfile", ("serde",), "a:int b:int", True),
            ("textfile", ("serde",), "a:int b:int c:int", False),
            ("textfile", ("other",), "a:int b:int", False),
        ],
    )
    def test_what_leaves_files_indexed(self, format: str, reading: tuple[str, ...], columns: str, stays: bool) -> None:
        indexed = schema_crc([Column("a", "int"), Column("b", "int")], "UTC", ("serde",) if reading else ())
        now = [Column(*column.split(":")) for column in columns.split()]
        valid = valid_schemas(format, now, "UTC", reading)
        assert (valid is None or indexed in valid) == stays

    def test_the_time_zone_matters_to_timestamps_alone(self) -> None:
        at, day, local = Column("a", "timestamp"), Column("a", "date"), Column("a", "timestamp_ntz")
        assert schema_crc([at], "UTC") != schema_crc([at], "Asia/Tokyo")
        assert all(schema_crc([one], "UTC") == schema_crc([one], "Asia/Tokyo") for one in (day, local))
        assert schema_crc([Column("A", "int")], "UTC") == schema_crc([Column("a", "int")], "UTC")


@pytest.mark.parametrize(
    ("format", "reading", "named"), [("orc", (), True), ("orc", ("s",), False), ("text", ("s",), False)]
)
def test_names_are_enough_for_orc_files_that_spark_reads(format: str, reading: tuple[str, ...], named: bool) -> None:
    valid = valid_schemas(format, [Column("k", "int")], "UTC", reading)
    assert valid is not None and (BY_NAME in valid) is named


def test_orc_files_whose_columns_have_ids_stay_indexed_whatever_changes() -> None:
    assert valid_schemas("orc", [Column("k", "int", field_id=1)], "UTC") is None
    assert valid_schemas("orc", [Column("k", "int", field_id=1), Column("x", "int")], "UTC") is not None
