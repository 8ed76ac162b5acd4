"""What attacks on the package have found, and the tests that hold each of it.

The attacks were on the package at the commit BEFORE, with default settings. `python scripts/red_before.py` runs these
tests on the package as it was then, where they must fail.
"""

from __future__ import annotations

BEFORE = "4c2b42d"
_ANSWERS = "tests/spark/catalyst/test_answers.py"
_STATE = "tests/spark/catalyst/test_one_state.py"
_BOUNDED = "tests/spark/catalyst/test_bounded.py"
_OWNERSHIP = "tests/spark/maintaining/test_ownership.py"
_TRUST = "tests/spark/registry/test_trust.py"
_OVERFLOW = f"{_ANSWERS}::test_a_sum_that_may_overflow_is_sparks[SELECT try_sum(b) FROM t-true]"


def _of_rows(query: str) -> str:
    return f"{_ANSWERS}::test_only_the_rows_answer[{query}]"


_OLD = "tests/integration/test_attacks.py"  # what runs on the package as it was, too

ATTACKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "A1": (
        "a filter above a nondeterministic projection was ignored by answers",
        (_of_rows("SELECT count(*) FROM (SELECT k, rand(1) AS r FROM t) WHERE r < -1"),),
    ),
    "A2": (
        "a listing was known without the values of its partitions",
        (
            f"{_STATE}::test_a_folder_that_is_added_under_another_value",
            f"{_STATE}::test_a_partition_that_is_renamed",
            f"{_STATE}::test_partitions_that_swap_their_folders",
        ),
    ),
    "A3": (
        "partitions that share a folder were counted twice",
        (f"{_STATE}::test_partitions_that_share_a_folder", "tests/spark/reading/test_shared_folder.py"),
    ),
    "A4": (
        "-0.0 was 0.0 to expressions over float keys",
        (_of_rows("SELECT count(*) FROM t WHERE CAST(d AS STRING) = '-0.0'"),),
    ),
    "A5": (
        "groups of a collation were groups of bytes",
        (_of_rows("SELECT count(*) FROM t GROUP BY s COLLATE UTF8_LCASE"),),
    ),
    "A6": ("sums of wide decimals lost digits", (_of_rows("SELECT sum(m), avg(m), try_sum(m) FROM t"),)),
    "A7": ("try_sum wrapped where it overflowed", (_OVERFLOW,)),
    "A8": (
        "groups of what is not deterministic were made of keys",
        (_of_rows("SELECT count(*) FROM t GROUP BY monotonically_increasing_id() < 10"),),
    ),
    "A9": (
        "an answer kept the small side that was read, and joined another",
        (f"{_STATE}::test_an_answer_joins_the_small_side_that_was_read",),
    ),
    "A10": (
        "functions read another table than Spark names",
        (
            f"{_OLD}::test_a10_a_name_is_the_table_that_spark_reads",
            "tests/spark/metastore/test_names.py",
        ),
    ),
    "B1": (
        "groups by a UDF or a subquery were internal errors",
        (_of_rows("SELECT count(*) FROM t GROUP BY plus(k)"),),
    ),
    "B2": ("a sum ran in another ANSI mode", (f"{_ANSWERS}::test_a_view_keeps_the_mode_that_it_was_made_with",)),
    "B3": (
        "all keys became rows of the driver",
        (f"{_BOUNDED}::test_keys_that_fit_are_answered_and_others_are_left_to_spark",),
    ),
    "B4": (
        "groups of CHAR and VARCHAR failed",
        (
            f"{_OLD}::test_b4_groups_of_char_and_varchar",
            f"{_ANSWERS}::test_char_types_that_are_kept_as_such",
        ),
    ),
    "B5": (
        "a byte of a marker stopped rebuild, clean and drop",
        (
            f"{_OLD}::test_b5_a_flipped_byte_of_a_marker_stops_nothing",
            f"{_OWNERSHIP}::test_with_damaged_markers_an_index_is_rebuilt_shown_cleaned_and_dropped",
        ),
    ),
    "C1": (
        "a drop emptied what a link led to",
        (
            f"{_OLD}::test_c1_a_drop_leaves_alone_what_a_link_leads_to",
            f"{_OWNERSHIP}::TestLinks",
        ),
    ),
    "C2": (
        "the cache removed the files of others",
        (
            f"{_OLD}::test_c2_the_cache_removes_no_files_of_others",
            "tests/stores/test_cache_folder.py::test_shrinking_removes_no_file_but_its_own_entries",
        ),
    ),
    "C3": (
        "two indexes shared a root",
        (
            f"{_OLD}::test_c3_a_drop_leaves_the_index_of_another_database",
            f"{_OWNERSHIP}::TestLocation",
        ),
    ),
    "C4": (
        "a forged table had the root of another index deleted",
        (
            f"{_OLD}::test_c4_a_drop_of_a_forged_table_leaves_the_index_whose_folder_it_names",
            f"{_OWNERSHIP}::test_an_index_table_with_the_root_of_another_index",
        ),
    ),
    "C5": (
        "an index could lie in a table of another database",
        (
            f"{_OLD}::test_c5_no_index_lies_in_a_table_of_another_database",
            f"{_OWNERSHIP}::TestLocation",
        ),
    ),
    "D1": (
        "an index was believed by its name",
        (
            f"{_OLD}::test_d1_a_forged_index_answers_no_query",
            f"{_TRUST}::test_an_index_of_another_owner_is_used_for_no_query",
        ),
    ),
    "D2": (
        "the WHERE of an index ran as SQL",
        (
            f"{_OLD}::test_d2_the_where_of_a_forged_index_does_not_run",
            "tests/core/index/test_partition_conditions.py::test_code_in_the_where_of_an_index_does_not_run",
        ),
    ),
    "D3": ("py4j's port took calls of anybody", ("tests/spark/catalyst/test_callback_port.py",)),
    "D4": (
        "engine_reads_only stopped no build, and a session could override it",
        (
            f"{_OLD}::test_d4_where_only_spark_may_read_no_keys_are_copied",
            f"{_OLD}::test_d4_a_session_cannot_allow_it",
            "tests/spark/preparing/test_engine_reads_only.py",
            "tests/spark/metastore/test_security_settings.py",
        ),
    ),
    "D5": (
        "shards were readable by whom the base files were not",
        (
            f"{_OLD}::test_d5_keys_are_as_private_as_the_files_they_are_from",
            "tests/spark/building/test_access.py::test_files_of_an_index_are_as_private_as_the_most_private_base_file",
        ),
    ),
    "D6": (
        "the cache believed entries that others had planted",
        (
            f"{_OLD}::test_d6_a_cache_that_others_can_write_is_not_believed",
            "tests/stores/test_cache_folder.py::test_a_folder_that_others_own_or_can_write_is_not_used",
        ),
    ),
    "E1": (
        "planning that was late ran on, and was begun again",
        (f"{_BOUNDED}::test_what_is_late_is_cancelled_and_not_tried_again",),
    ),
    "E2": (
        "row groups were cut without regard to their keys",
        (
            f"{_OLD}::test_e2_row_groups_hold_few_bytes_of_long_keys",
            "tests/core/index/test_shard.py::test_long_keys_are_looked_up_in_one_row_group",
        ),
    ),
    "E3": (
        "caches were bounded by count",
        (
            f"{_OLD}::test_e3_manifests_that_are_kept_take_no_more_than_is_allowed",
            f"{_BOUNDED}::test_caches_are_bounded_together",
        ),
    ),
    "F": (
        "indexes went before Spark had dropped their table",
        ("tests/spark/sql/test_drop_order.py::test_indexes_stay_if_spark_refuses",),
    ),
    "H1": (
        "writes of another session were not seen",
        (f"{_STATE}::test_a_write_between_planning_and_the_first_execution_is_seen",),
    ),
    "H3": ("a dropped index was told as damaged", ("tests/core/index/test_unreadable.py",)),
}
