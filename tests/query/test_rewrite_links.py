"""Which columns of two scans a query demands to be equal, by hand: the cases in which a wrong rule would lose rows.

That none is lost is shown by the corpus and the random queries in tests/integration.
"""

from __future__ import annotations

import pytest

from hive_bitmap.query.rewrite.demands import scans
from hive_bitmap.query.rewrite.links import links
from hive_bitmap.query.rewrite.queries import statement
from hive_bitmap.query.rewrite.words import read


def linked(text: str) -> set[str]:
    """Each link of each scan, as `name of the scan.column < name of the other.column`; bare names stay bare."""
    words = read(text)
    found = list(scans(statement(words)))
    return {
        f"{one.scan.alias}: {'.'.join(link.path)} < {link.other.scan.alias}: {'.'.join(link.other_path)}"
        for one in found
        for link in links(words, one, found)
        if link.path[0] in (one.scan.alias, *"kmn") and link.other_path[0] in (link.other.scan.alias, *"kmn")
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT 1 FROM f JOIN d ON f.k = d.k WHERE d.x = 1", {"f: f.k < d: d.k", "d: d.k < f: f.k"}),
        ("SELECT 1 FROM f, d WHERE f.k == d.k AND x", {"f: f.k < d: d.k", "d: d.k < f: f.k"}),
        ("SELECT 1 FROM f JOIN d ON k = m AND x", {"f: k < d: m", "f: m < d: k", "d: k < f: m", "d: m < f: k"}),
        ("SELECT 1 FROM f JOIN d ON f.k = d.k OR x", set()),
        ("SELECT 1 FROM f JOIN d ON f.k < d.k", set()),
        ("SELECT 1 FROM f JOIN d ON f.k = d.k + 1", set()),
        ("SELECT 1 FROM f JOIN d ON NOT f.k = d.k", set()),
        ("SELECT 1 FROM f LEFT JOIN d ON f.k = d.k WHERE d.x = 1", {"d: d.k < f: f.k"}),
        ("SELECT 1 FROM d LEFT JOIN f ON f.k = d.k WHERE d.x = 1", {"f: f.k < d: d.k"}),
        ("SELECT 1 FROM f LEFT JOIN d ON y WHERE f.k = d.k", {"f: f.k < d: d.k", "d: d.k < f: f.k"}),
        ("SELECT 1 FROM f RIGHT JOIN d ON f.k = d.k WHERE d.x = 1", set()),
        ("SELECT 1 FROM f FULL JOIN d ON f.k = d.k", set()),
        ("SELECT 1 FROM f SEMI JOIN d ON f.k = d.k", {"f: f.k < d: d.k", "d: d.k < f: f.k"}),
        ("SELECT 1 FROM f ANTI JOIN d ON f.k = d.k", {"d: d.k < f: f.k"}),
        ("SELECT 1 FROM f JOIN d USING (k)", {"f: k < d: k", "d: k < f: k"}),
        ("SELECT 1 FROM f SEMI JOIN d USING (k)", {"f: k < d: k", "d: k < f: k"}),
        ("SELECT 1 FROM f LEFT JOIN d USING (k)", {"d: k < f: k"}),
        ("SELECT 1 FROM f ANTI JOIN d USING (k)", {"d: k < f: k"}),
        ("SELECT 1 FROM f RIGHT JOIN d USING (k)", set()),
        ("SELECT 1 FROM f NATURAL JOIN d", set()),
        ("SELECT 1 FROM a LEFT JOIN d USING (k) JOIN f USING (k)",
         {"d: k < a: k", "a: k < f: k", "f: k < a: k"}),
        ("SELECT 1 FROM f JOIN d USING (k) WHERE m = n", {"f: k < d: k", "d: k < f: k"}),
        ("SELECT 1 FROM f WHERE k IN (SELECT k FROM d WHERE x)", {"f: k < d: k"}),
        ("SELECT 1 FROM f WHERE f.k IN (SELECT DISTINCT d.k FROM d LEFT JOIN e ON y LIMIT 3)", {"f: f.k < d: d.k"}),
        ("SELECT 1 FROM f RIGHT JOIN e ON y WHERE f.k IN (SELECT d.k FROM d)", {"f: f.k < d: d.k"}),
        ("SELECT 1 FROM f WHERE k NOT IN (SELECT k FROM d)", set()),
        ("SELECT 1 FROM f WHERE k IN (SELECT k FROM d) OR x", set()),
        ("SELECT 1 FROM f WHERE k IN (SELECT max(k) FROM d)", set()),
        ("SELECT 1 FROM f WHERE k IN (SELECT k + 1 AS k FROM d)", set()),
        ("SELECT 1 FROM f WHERE k IN (SELECT * FROM d)", set()),
        ("SELECT 1 FROM f WHERE k IN (SELECT k FROM d UNION SELECT k FROM e)", set()),
        ("SELECT 1 FROM f WHERE k IN ((SELECT k FROM d) UNION SELECT k FROM e)", set()),
        ("SELECT 1 FROM f WHERE k IN (SELECT k FROM e LEFT JOIN d USING (k))", {"d: k < e: k"}),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k AND x)", {"f: f.k < d: d.k"}),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM d WHERE k = f.k)", {"f: f.k < d: k"}),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = k)", set()),
        ("SELECT 1 FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = f.k)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT max(1) FROM d WHERE d.k = f.k GROUP BY m)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k LIMIT 0)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT max(1) FROM d WHERE d.k = f.k)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 2, (1 + any_value(m)) FROM d WHERE d.k = f.k)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 IS DISTINCT FROM count(*) FROM d WHERE d.k = f.k)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM a LEFT JOIN d ON d.k = f.k)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM d, g f WHERE d.k = f.k)", {"d: d.k < f: f.k", "f: f.k < d: d.k"}),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d.k = f.k UNION SELECT 1)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM a ANTI JOIN d ON y WHERE f.k = d.k)", set()),
        ("SELECT 1 FROM f WHERE EXISTS (SELECT 1 FROM a LEFT SEMI JOIN d ON y WHERE f.k = k)", {"f: f.k < a: k"}),
        ("SELECT 1 FROM f WHERE k IN (SELECT k FROM a SEMI JOIN d ON y)", {"f: k < a: k"}),
        ("SELECT 1 FROM f WHERE k IN (SELECT d.k FROM a LEFT ANTI JOIN d ON y)", set()),
        ("SELECT f.k = d.k FROM f, d GROUP BY 1 HAVING f.k = d.k", set()),
    ],
)  # fmt: skip
def test_links(text: str, wanted: set[str]) -> None:
    assert linked(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT 1 FROM a JOIN b USING (k)", {("b", "a", ()), ("a", "b", ())}),
        (
            "SELECT 1 FROM a JOIN b ON x JOIN c USING (k)",
            {("c", "a", ()), ("a", "c", ()), ("c", "b", ("a",)), ("b", "c", ("a",))},
        ),
        ("SELECT 1 FROM a, b JOIN c USING (k)", {("c", "b", ("a",)), ("b", "c", ("a",))}),
        (
            "SELECT 1 FROM a JOIN b ON x SEMI JOIN c USING (k)",
            {("c", "a", ()), ("a", "c", ()), ("c", "b", ("a",)), ("b", "c", ("a",))},
        ),
        ("SELECT 1 FROM a LEFT JOIN b ON x JOIN c USING (k)", {("c", "a", ()), ("a", "c", ())}),
    ],
)
def test_using_merges_with_the_leftmost_column_of_the_name(
    text: str, wanted: set[tuple[str, str, tuple[str, ...]]]
) -> None:
    """A link to a source behind others counts only if none of these has such a column."""
    words = read(text)
    found = list(scans(statement(words)))
    made = {
        (one.scan.alias, link.other.scan.alias, tuple(getattr(source, "alias", "?") for source in link.nearer))
        for one in found
        for link in links(words, one, found)
        if link.path == ("k",)
    }
    assert made == wanted
