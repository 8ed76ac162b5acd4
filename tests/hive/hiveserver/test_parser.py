"""Parsing predicates: cases of the form `text => tree`, one a line, and the errors for texts that are refused."""

from __future__ import annotations

import pickle

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import Compare, Constant, In, Or, Unknown, columns_of, leaves_of
from hive_bitmap.errors import InvalidPredicate
from hive_bitmap.hive.hiveserver.parser import parse
from tests.hive.hiveserver.trees import COLUMNS, cases, shown

STRUCTURE = r"""
a = 1 AND s = 'x' OR d IS NULL            => ((a = 1 AND s = 'x') OR d IS NULL)
a = 1 OR s = 'x' AND d IS NULL            => (a = 1 OR (s = 'x' AND d IS NULL))
(a = 1 OR s = 'x') AND d IS NULL          => ((a = 1 OR s = 'x') AND d IS NULL)
NOT a = 1 AND s = 'x'                     => (a <> 1 AND s = 'x')
NOT (a = 1 AND s = 'x') OR d IS NULL      => (a <> 1 OR s <> 'x' OR d IS NULL)
NOT (a < 1 OR NOT (s >= 'x' AND flag))    => (a >= 1 AND s >= 'x' AND flag = TRUE)
NOT NOT a <= 1                            => a <= 1
!a > 1                                    => a <= 1
((((a = 1))))                             => a = 1
(a) = (1)                                 => a = 1
a=1 or a=2 or a in(3,1)                   => a IN (1, 2, 3)
a = 1 OR s = 'x' OR a = 2                 => (a IN (1, 2) OR s = 'x')
a = 1 AND (a = 1 AND s = 'x')             => (a = 1 AND s = 'x')
a IS NOT NULL AND a > 1                   => a > 1
a IS NULL OR a IS NOT NULL                => TRUE
a BETWEEN 1 AND 2 AND s = 'x'             => (a >= 1 AND a <= 2 AND s = 'x')
a NOT BETWEEN 1 AND 2 AND s = 'x'         => ((a < 1 OR a > 2) AND s = 'x')
NOT a BETWEEN 1 AND NULL                  => a < 1
1 = 1 AND a = 1                           => a = 1
1 = 0 OR a = 1                            => a = 1
TRUE                                      => TRUE
NULL OR FALSE                             => NULL
a = 1 AND NULL                            => NULL
(a = 1) = (s = 'x') AND flag              => ({} AND flag = TRUE)
(a = 1) = (a = 2) AND flag                => ({} AND flag = TRUE)
a = 1 IS NULL OR flag                     => ({} OR flag = TRUE)
NOT (a = 1) IS NULL                       => {}
CASE WHEN a = 1 AND 2 OR 3 THEN 4 END AND flag => ({} AND flag = TRUE)
CASE CASE a WHEN 1 THEN 2 END WHEN 3 AND 4 THEN 5 END => {}
if(a = 1 AND a = 2, TRUE, a = 3 OR FALSE) OR flag => ({} OR flag = TRUE)
upper(s) BETWEEN 'A' AND 'B' AND flag     => ({} AND flag = TRUE)
and(a = 1, a = 2) AND flag                => ({} AND flag = TRUE)
a = 1 /* AND s = 'x' */ AND flag -- OR a = 2 => (a = 1 AND flag = TRUE)
s = ' AND ' AND flag                      => (s = ' AND ' AND flag = TRUE)
s = '(' OR s = ')'                        => s IN ('(', ')')
show = 1 AND start > 2                    => (show = 1 AND start > 2)
"""

UNKNOWN = r"""
rand() < 0.5                              => {}
NOT uuid() = s                            => {}
my_function(a) = 1                        => {}
d > current_date                          => {}
d > current_date()                        => {}
d > 'today'                               => {}
ts < TIMESTAMP 'now'                      => {}
_metadata.file_path = 'x'                 => {}
st.f = 1                                  => {}
st.end = 1 AND a = 1                      => ({} AND a = 1)
st.between = 1 AND a = 1                  => ({} AND a = 1)
u.a = 1                                   => {}
nope = 1                                  => {}
a = big                                   => {}
(a, big) IN ((1, 2))                      => {}
a IN (SELECT 1)                           => {}
EXISTS (SELECT 1 WHERE a OR flag) OR a = 1 => ({} OR a = 1)
(SELECT true) AND a = 1                   => ({} AND a = 1)
exists(array(a), x -> x = 1 AND TRUE)     => {}
a = :p                                    => {}
a = ?                                     => {}
sum(a) OVER () = 1                        => {}
a = 1, a = 2                              => {}
a = 1;                                    => {}
a                                         => {}
'x'                                       => {}
f = '-0.0'                                => {}
cast(f AS string) = '-0.0'                => {}
a = 1 /* /* */ AND s = 'x' */             => {'/*' may be read in several ways}
a = 1 /*+ hint */                         => {'/*' may be read in several ways}
a = 1 -- \ AND                            => {'\\ ' may be read in several ways}
s = '${x}'                                => {Spark may replace what stands in ${..}}
any(flag) AND a = 1                       => ({} AND a = 1)
a. = 1                                    => {}
db.t.a = 1                                => {}
() AND a = 1                              => ({} AND a = 1)
"""


@pytest.mark.parametrize(("text", "tree"), cases(STRUCTURE + UNKNOWN))
def test_a_text_becomes_a_tree(text: str, tree: str) -> None:
    assert shown(parse(text, COLUMNS, "t")) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: a condition is missing"),
        (" /* nothing */ ", "line 1, column 1: a condition is missing"),
        ("a = 1 AND", "line 1, column 10: the end stands where a condition should after AND"),
        ("a = 1\n  AND OR s = 'x'", "line 2, column 7: OR stands where a condition should after AND"),
        ("OR a = 1", "line 1, column 1: OR stands where a condition should"),
        ("(a = 1 OR) AND flag", "line 1, column 10: ) stands where a condition should after OR"),
        ("NOT", "line 1, column 4: the end stands where a condition should after NOT"),
        ("(a = 1", "line 1, column 1: this ( is not closed"),
        ("a = 1)", "line 1, column 6: this ) closes nothing"),
        ("a IN (1]", "line 1, column 8: this ] closes nothing"),
        ("a = 1\nAND s = 'x", "line 2, column 9: the quote ' is not closed"),
        ("s = '\ud800'", "line 1, column 6: half a surrogate pair"),
        ("`a = 1", "line 1, column 1: the quote ` is not closed"),
        ('s = "x\\"', 'line 1, column 5: the quote " is not closed'),
    ],
)
def test_a_text_that_cannot_be_split_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidPredicate) as caught:
        parse(text, COLUMNS)
    assert str(caught.value).startswith(message)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("word", ["and", "or", "not", "between", "case"])
def test_a_column_that_is_named_like_a_keyword_leaves_the_structure_in_doubt(word: str) -> None:
    columns = [*COLUMNS, Column(word, "int")]
    assert isinstance(parse(f"a = 1 {word} b", columns), Unknown)
    assert parse(f"`{word}` = 1", columns) == Compare(word, "=", 1)


def test_a_column_named_end_is_in_doubt_only_beside_case() -> None:
    columns = [*COLUMNS, Column("end", "int")]
    assert shown(parse("start >= 1 AND end < 5", columns)) == "(start >= 1 AND end < 5)"
    assert shown(parse("end < 5 AND start >= 1", columns)) == "(end < 5 AND start >= 1)"
    assert isinstance(parse("CASE WHEN end = 1 THEN TRUE END AND a = 1", columns), Unknown)


def test_names_that_differ_in_case_only_are_no_column() -> None:
    assert isinstance(parse("x = 1", [Column("x", "int"), Column("X", "int")]), Unknown)


def test_a_thousand_parts_are_one_flat_tree() -> None:
    chain = " OR ".join(f"(a = {number} AND big = {number})" for number in range(1000))
    nested = "a = 0"
    for number in range(1, 1000):
        nested = f"({nested}) OR a = {number}"
    tree = parse(chain, COLUMNS)
    assert isinstance(tree, Or)
    assert len(tree.children) == 1000
    assert parse(nested, COLUMNS) == In("a", tuple(range(1000)))
    assert parse("(" * 2000 + "a = 1" + ")" * 2000, COLUMNS) == Compare("a", "=", 1)
    assert parse("NOT " * 2001 + "a = 1", COLUMNS) == Compare("a", "<>", 1)


def test_a_dot_in_the_name_of_a_table_separates_nothing() -> None:
    """With the alias `x.y`, as in FROM t AS `x.y` JOIN u AS y, `y.a` is not a column of t."""
    assert parse("`x.y`.a = 1", COLUMNS, "x.y") == Compare("a", "=", 1)
    for text in ("y.a = 1", "x.y.a = 1", "`y`.a = 1"):
        assert isinstance(parse(text, COLUMNS, "x.y"), Unknown)


def test_a_tree_too_deep_for_recursion_selects_all_rows_there_and_survives_pickling() -> None:
    text = "a = 0"
    for number in range(1, 400):
        text = f"({text} OR a = {number}) AND big <> {number}"
    tree = parse(text, COLUMNS)
    assert "nested too deep" in {leaf.reason for leaf in leaves_of(tree) if isinstance(leaf, Unknown)}
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(tree) == hash(parse(text, COLUMNS))


def test_columns_of_does_not_count_what_is_unknown() -> None:
    assert columns_of(parse("a = 1 AND (upper(s) = 'X' OR NOT st.f = 1 OR flag)", COLUMNS)) == {"a", "flag"}
    assert columns_of(Constant(True)) == set()
