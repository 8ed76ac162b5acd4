"""The leaves of a condition: which are evaluated without an engine, and to which tree; `text => tree`, one a line."""

from __future__ import annotations

import pytest

from hive_bitmap.core.predicates.nodes import NULL, And, Compare, Constant, In, IsNull, Or, Predicate, Unknown
from hive_bitmap.core.predicates.tokens import Tokens
from hive_bitmap.hive.hiveserver.column_names import Names
from hive_bitmap.hive.hiveserver.parser import Condition, parse
from tests.hive.hiveserver.rendering import to_sql
from tests.hive.hiveserver.trees import COLUMNS, cases, shown

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


@pytest.mark.parametrize(("text", "tree"), cases(NATIVE + ASKED))
def test_a_leaf_becomes_a_tree(text: str, tree: str) -> None:
    assert shown(parse(text, COLUMNS, "t")) == tree


@pytest.mark.parametrize(("text", "_"), cases(NATIVE))
def test_the_sql_of_a_tree_is_the_tree(text: str, _: str) -> None:
    predicate = parse(text, COLUMNS, "t")
    assert parse(to_sql(predicate), COLUMNS) == predicate


def read(text: str) -> Predicate:
    tokens = Tokens(text)
    return Condition(tokens, Names(COLUMNS, "t"), {}).leaf(len(tokens.tokens))


NOT_NULL, NULLS = IsNull("tiny", negated=True), IsNull("tiny")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("tiny < 128", Or((NOT_NULL, NULL))),  # TRUE for every value, NULL for NULL
        ("tiny < 127", Compare("tiny", "<", 127)),
        ("tiny > 127", Compare("tiny", ">", 127)),
        ("tiny > 128", And((NULLS, NULL))),  # FALSE for every value, NULL for NULL
        ("tiny >= -129", Or((NOT_NULL, NULL))),
        ("tiny <= -129", And((NULLS, NULL))),
        ("tiny = -129", And((NULLS, NULL))),
        ("tiny <> 128", Or((NOT_NULL, NULL))),
        ("tiny <=> 128", And((And((NULLS, NULL)), NOT_NULL))),
        ("tiny <=> 1", And((Compare("tiny", "=", 1), NOT_NULL))),
        ("tiny <=> NULL", NULLS),
        ("tiny IN (128, -129)", And((NULLS, NULL))),
        ("tiny IN (1, 128, 1, NULL)", Or((In("tiny", (1,)), NULL))),
        ("tiny IN (128, NULL)", NULL),
        ("tiny BETWEEN NULL AND 1", And((NULL, Compare("tiny", "<=", 1)))),
        ("tiny BETWEEN 128 AND 129", And((And((NULLS, NULL)), Or((NOT_NULL, NULL))))),
        ("tiny NOT IN (1)", In("tiny", (1,), negated=True)),
        ("flag <=> TRUE", And((Compare("flag", "=", True), IsNull("flag", negated=True)))),
        ("flag != TRUE", Compare("flag", "=", False)),
        ("s LIKE NULL", NULL),
        ("1 = 1", Constant(True)),
        ("1 = 2", Constant(False)),
        ("NULL", Constant(None)),
    ],
)
def test_a_leaf_is_exact_in_three_valued_logic(text: str, node: Predicate) -> None:
    assert read(text) == node


@pytest.mark.parametrize(
    "text",
    [
        *("a = 1 1", "a IS", "a IS NOT", "a IN", "a IN (", "a IN ()", "a IN (1,)", "a BETWEEN 1", "a BETWEEN 1 AND"),
        *("(a = 1", "((a) = 1", "a =", "= 1", "a <", "a IS DISTINCT 1", "a LIKE", "1", "1 = 1.0", "1 < 2"),
        *("TRUE = TRUE", "- a = 1", "flag IS DISTINCT TRUE"),
    ],
)
def test_a_leaf_of_another_form_is_asked_as_it_is_written(text: str) -> None:
    assert read(text) == Unknown(text, "only an engine evaluates it")
