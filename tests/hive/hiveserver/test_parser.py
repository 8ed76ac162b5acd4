"""Parsing predicates: cases of the form `text => tree`, one a line, and the errors for texts that are refused."""

from __future__ import annotations

import pickle

import pytest

from hive_bitmap.core.columns import Column
from hive_bitmap.core.predicates.nodes import And, Compare, Constant, In, Or, Predicate, Unknown, columns_of, leaves_of
from hive_bitmap.errors import InvalidPredicate
from hive_bitmap.hive.hiveserver.parser import parse
from tests.hive.hiveserver.rendering import to_sql

TYPES = {
    "a": "int",
    "tiny": "tinyint",
    "big": "bigint",
    "s": "string",
    "v": "varchar(5)",
    "c": "char(4)",
    "lc": "string collate UTF8_LCASE",
    "flag": "boolean",
    "d": "date",
    "ts": "timestamp",
    "m": "decimal(5,2)",
    "w": "decimal(38,36)",
    "f": "double",
    "b": "binary",
    "st": "struct<f:int,end:int>",
    "start": "int",
    "show": "int",
    "odd name": "int",
    "user": "string",
}
COLUMNS = [Column(name, kind) for name, kind in TYPES.items()]

# In the trees {reason} is an Unknown, {} one that only an engine evaluates; everything else is SQL.
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

NATIVE = r"""
a == 1                                    => a = 1
a != 1                                    => a <> 1
a !> 1                                    => a <= 1
a !< 1                                    => a >= 1
1 < a                                     => a > 1
-5 >= a                                   => a <= -5
a = - 5                                   => a = -5
a = 5L                                    => a = 5
a = 007                                   => a = 7
a = NULL                                  => NULL
NOT a = NULL                              => NULL
a <=> 1                                   => a = 1
NOT a <=> 1                               => (a <> 1 OR a IS NULL)
NULL <=> a                                => a IS NULL
NOT a <=> NULL                            => a IS NOT NULL
a IS DISTINCT FROM 1                      => (a <> 1 OR a IS NULL)
a IS NOT DISTINCT FROM 1                  => a = 1
a IN (1, NULL)                            => a = 1
a NOT IN (1, NULL)                        => NULL
a NOT IN (1, 2)                           => a NOT IN (1, 2)
NOT a IN (1, 2, 1)                        => a NOT IN (1, 2)
a IN (NULL)                               => NULL
a IS NULL                                 => a IS NULL
NOT a IS NOT NULL                         => a IS NULL
f IS NOT NULL AND st IS NULL AND b IS NULL => (f IS NOT NULL AND st IS NULL AND b IS NULL)
tiny < 1000                               => tiny IS NOT NULL
tiny > 1000                               => NULL
tiny = 1000                               => NULL
tiny <> -1000                             => tiny IS NOT NULL
NOT tiny < 1000                           => NULL
NOT tiny = 1000                           => tiny IS NOT NULL
tiny <=> 1000                             => NULL
NOT tiny <=> 1000                         => TRUE
tiny IN (1, 1000)                         => tiny = 1
tiny NOT IN (1000)                        => tiny IS NOT NULL
tiny BETWEEN -1000 AND 5                  => tiny <= 5
big = 9223372036854775807                 => big = 9223372036854775807
big = -9223372036854775808                => big = -9223372036854775808
flag                                      => flag = TRUE
NOT flag                                  => flag = FALSE
flag <> TRUE                              => flag = FALSE
flag IS NOT TRUE                          => (flag = FALSE OR flag IS NULL)
flag IS FALSE                             => flag = FALSE
flag IS UNKNOWN                           => flag IS NULL
s = 'x'                                   => s = 'x'
s = ''                                    => s = ''
v >= 'x'                                  => v >= 'x'
s LIKE 'ab%'                              => s LIKE 'ab%'
NOT s LIKE 'ab%'                          => s NOT LIKE 'ab%'
s LIKE 'ab'                               => s = 'ab'
s NOT LIKE 'ab'                           => s <> 'ab'
d = DATE '2020-02-29'                     => d = DATE '2020-02-29'
d < date'1583-01-01'                      => d < DATE '1583-01-01'
m = 1                                     => m = 1.00
m = 1.5                                   => m = 1.50
m > -.5                                   => m > -0.50
m < 1000                                  => m IS NOT NULL
m IN (1, 1.25, 1000)                      => m IN (1.00, 1.25)
A = 1                                     => a = 1
`a` = 1 AND t.a = 2 AND `T`.`A` = 3 => (a = 1 AND a = 2 AND a = 3)
`odd name` = 1                            => `odd name` = 1
"""

ASKED = r"""
s = 'it''s'                               => {}
s = 'a' 'b'                               => {}
s = 'a\tb'                                => {}
s = "x"                                   => {}
s = r'x'                                  => {}
s LIKE '%x'                               => {}
s LIKE 'a_c'                              => {}
s LIKE 'a%b%'                             => {}
s LIKE ANY ('a%', '%b')                   => {}
s LIKE 'a%' ESCAPE '/'                    => {}
NOT s RLIKE 'a'                           => {}
s = 1                                     => {}
a = '1'                                   => {}
a LIKE '1%'                               => {}
a = 1.0                                   => {}
a IN (1, 1.5)                             => {}
a = 1e3                                   => {}
a = 1 + 1                                 => {}
a = -(1)                                  => {}
a = 40000S                                => {}
big < 9223372036854775808                 => {}
m = 1.234                                 => {}
m = 1.5BD                                 => {}
w = 100                                   => {}
f = 1                                     => {}
c = 'ab'                                  => {}
lc = 'x'                                  => {}
s COLLATE UTF8_LCASE = 'x'                => {}
flag < TRUE                               => {}
flag = 'true'                             => {}
d = '2020-02-29'                          => {}
d = DATE '2020-02-30'                     => {}
d = DATE '2020-2-3'                       => {}
d > DATE '1582-10-04'                     => {}
d > DATE '2020-01-01' - INTERVAL 1 DAY    => {}
ts > TIMESTAMP '2020-01-01 00:00:00'      => {}
b = X'6161'                               => {}
cast(a AS string) = '1'                   => {}
a::string = '1'                           => {}
upper(t.s) = `T`.`s` || 'X'               => {}
split(s, ',')[0] = 'x'                    => {}
user = 'root'                             => {}
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


def cases(table: str) -> list[tuple[str, str]]:
    lines = [line.rpartition(" => ") for line in table.splitlines() if line]
    return [(text.strip(), tree.strip()) for text, _, tree in lines]


def shown(predicate: Predicate) -> str:
    match predicate:
        case And(children):
            return f"({' AND '.join(map(shown, children))})"
        case Or(children):
            return f"({' OR '.join(map(shown, children))})"
        case Unknown(_, reason):
            return f"{{{reason.replace('only an engine evaluates it', '')}}}"
        case _:
            return to_sql(predicate)


@pytest.mark.parametrize(("text", "tree"), cases(STRUCTURE + NATIVE + ASKED + UNKNOWN))
def test_a_text_becomes_a_tree(text: str, tree: str) -> None:
    assert shown(parse(text, COLUMNS, "t")) == tree


@pytest.mark.parametrize(("text", "_"), cases(NATIVE))
def test_the_sql_of_a_tree_is_the_tree(text: str, _: str) -> None:
    predicate = parse(text, COLUMNS, "t")
    assert parse(to_sql(predicate), COLUMNS) == predicate


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
