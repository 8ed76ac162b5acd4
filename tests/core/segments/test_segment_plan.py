"""What a build does with segments, for random edits of a table and for two builders, against a dict."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hive_bitmap.core.index.manifest import ALL, CHANGED, COLUMNS_CHANGED, DAMAGED, NEW
from hive_bitmap.core.segments.segment_plan import DEAD_SECONDS, Rules, Scope, judge
from hive_bitmap.core.table_info import Values
from tests.core.segments.segment_world import RULES, Table, World, at, listing

VALUES: list[Values] = [("1",), ("01",), ("2",), (None,)]
PATHS = ["file:/t/a", "file:/t/b", "file:/t/c"]
FILES = st.tuples(st.sampled_from(VALUES), st.sampled_from(PATHS))
TABLES = st.dictionaries(FILES, st.integers(1, 3), max_size=8)
DAYS: Table = {((str(day),), f"file:/t/{day}"): 1 for day in range(10)}


class TestKept:
    def test_a_table_without_an_index_is_read_whole_into_one_segment(self) -> None:
        world = World()
        made = world.build(DAYS)
        assert len(made.new) == 1 and made.new[0].why == (NEW,) * 10 and not made.gone
        assert world.state() == DAYS

    def test_nothing_is_done_where_nothing_has_changed(self) -> None:
        world = World()
        world.build(DAYS)
        assert not world.build(DAYS).new and not world.build(DAYS).gone

    def test_a_new_file_makes_a_new_segment_and_touches_no_other(self) -> None:
        world = World(size=100 << 20)
        world.build(DAYS)
        made = world.build({**DAYS, (("10",), "file:/t/10"): 1})
        [one] = made.new
        assert len(one.read) == 1 and not one.replaced and not made.gone and len(world.live()) == 2

    def test_a_segment_with_a_changed_file_is_replaced_and_its_other_shards_are_linked(self) -> None:
        world = World(size=100 << 20)
        world.build(DAYS)
        made = world.build({**DAYS, (("3",), "file:/t/3"): 2})
        assert [one.why for one in made.new if one.read] == [(CHANGED,)]
        [rewritten] = [one for one in made.new if one.replaced]
        assert len(rewritten.linked) == 9 and not rewritten.rewritten and len(made.gone) == 1

    def test_full_keeps_nothing(self) -> None:
        world = World()
        world.build(DAYS)
        made = world.build(DAYS, rules=at(0, full=True))
        assert made.new[0].why == (ALL,) * 10 and not made.new[0].linked and world.state() == DAYS

    def test_a_file_of_other_columns_and_one_of_a_damaged_shard_are_read_again(self) -> None:
        world = World()
        world.build(DAYS)
        covered, listed = world.covered(), listing(DAYS)
        present = world.present(covered.segments)
        other = judge(covered, listed, Scope(), at(0, schemas=frozenset([8]), schema_crc=8), present)
        assert set(other.why.values()) == {COLUMNS_CHANGED}
        damaged = judge(covered, listed, Scope(), RULES, dict(list(present.items())[1:]))
        assert list(damaged.why.values()) == [DAMAGED] and damaged.kept.sum() == 9


class TestGone:
    def test_rows_of_files_that_are_gone_stay_until_they_are_a_fifth(self) -> None:
        world = World()
        world.build(DAYS)
        left = dict(list(DAYS.items())[1:])
        assert not world.build(left).new and len(world.state()) == 10
        left = dict(list(DAYS.items())[2:])
        assert world.build(left).new and world.state() == left

    def test_they_go_after_a_day_and_at_once_where_that_is_asked_for(self) -> None:
        left = dict(list(DAYS.items())[1:])
        for rules in (at(DEAD_SECONDS + 9), at(0, remove_dead=True)):
            world = World()
            world.build(DAYS)
            assert len(world.build(left, rules=rules).new) == 1 and world.state() == left

    def test_a_segment_of_which_nothing_is_left_leaves_its_slot(self) -> None:
        world = World()
        world.build(DAYS)
        made = world.build({})
        assert not made.new and len(made.gone) == 1 and not world.live()

    def test_partitions_that_the_index_no_longer_covers_go_at_once(self) -> None:
        world = World()
        world.build(DAYS)
        left = {file: version for file, version in DAYS.items() if file[0] != ("3",)}
        world.build(left, Scope(excluded=frozenset([("3",)])))
        assert world.state() == left

    def test_removed_files_of_a_log_are_kept_for_as_long_as_it_says(self) -> None:
        world = World()
        world.build({((), "file:/t/a"): 1, ((), "file:/t/b"): 1})
        left: Table = {((), "file:/t/b"): 1}
        world.build(left, Scope(removed=frozenset(["file:/t/a"])), at(DEAD_SECONDS + 9))
        assert len(world.state()) == 2
        world.build(left, rules=at(DEAD_SECONDS + 9))
        assert world.state() == left


class TestMerging:
    def test_a_year_of_daily_refreshes_leaves_a_few_segments(self) -> None:
        world, table, most, written = World(size=10 << 20), dict[tuple[Values, str], int](), 0, 0
        for day in range(365):
            table[(f"{day:03}",), f"file:/t/{day}"] = 1
            for one in world.build(table).new:
                written += one.files.num_rows
            most = max(most, len(world.live()))
        assert world.state() == table and most <= 16 and written <= 5 * 365

    def test_segments_with_other_readers_are_never_merged(self) -> None:
        world, table = World(), dict[tuple[Values, str], int]()
        for day in range(40):
            table[(str(day),), f"file:/t/{day}"] = 1
            world.build(table, readers={(str(day),): day % 2 for day in range(40)})  # `build` compares the readers
        assert world.state() == table and len(world.live()) <= 8

    def test_partitions_that_share_a_folder_have_shards_of_their_own(self) -> None:
        world = World()
        table: Table = {(values, path): 1 for values in VALUES for path in PATHS}
        for file in table:
            world.build({**world.state(), file: 1})  # `written` requires paths to be distinct
        assert world.build(table, rules=at(0, compact=True)) is not None and world.state() == table


@given(st.lists(st.tuples(TABLES, st.sets(st.sampled_from(VALUES)), st.booleans(), st.booleans()), max_size=6))
@settings(max_examples=60, deadline=None)
def test_random_edits(edits: list[tuple[Table, set[Values], bool, bool]]) -> None:
    """After each build the files in scope are covered as they are, and the others as they were."""
    world = World()
    for table, partitions, whole, remove in edits:
        before = world.state()
        scope = Scope() if whole else Scope(partitions=frozenset(partitions))
        world.build(table, scope, at(0, remove_dead=remove))
        after = world.state()
        for file in {*table, *before, *after}:
            if not whole and file[0] not in partitions:
                assert after.get(file) == before.get(file)
            elif file in table:
                assert after[file] == table[file]
            else:
                assert after.get(file) in (None, before.get(file)) and not (remove and file in after)
        assert not world.build(table, scope, at(0, remove_dead=remove)).read


@given(TABLES, TABLES, TABLES, st.booleans(), st.booleans())
@settings(max_examples=120, deadline=None)
def test_two_builders(first: Table, one: Table, other: Table, stale: bool, each: bool) -> None:
    """Both publish by what they saw of the slots at some moment; then each mends, and a refresh covers every file."""
    world = World()
    world.build(first)
    seen = dict(world.slots)
    plans = [world.planned(one), world.planned(other)]
    new = [[world.written(listed, part) for part in made.new] for listed, made in plans]
    for (_, made), folders in zip(plans, new, strict=True):
        world.move(seen if stale else dict(world.slots), folders, made.gone)
        if each:
            mend(world)
    mend(world)
    assert len(world.state()) == len(world.rows())  # no file is covered twice
    final = {**one, **other}
    world.build(final)
    assert {file: world.state()[file] for file in final} == final


def mend(world: World, rules: Rules = RULES) -> None:
    """Remove what a segment of an older name covers too, as a build does after each publication."""
    for _ in range(5):
        made = world.build({}, Scope(partitions=frozenset()), rules)
        if made.is_empty:
            return
    raise AssertionError("there is always something to mend")
