"""The forty questions of `bench.questions`, of the kinds that people ask of a warehouse, also those no index helps."""

from __future__ import annotations

from dataclasses import dataclass

from bench.shop import FULL_ROWS, Sizes, invoice

COUNTS, SUMS, KEYS, TIMES, ROWS, JOINS, FIRST, TEXTS = (
    "counts and groups",
    "sums",
    "many keys",
    "times",
    "rows",
    "joins",
    "first rows",
    "texts and arrays",
)


@dataclass(frozen=True)
class Question:
    """A query; the rows of its answer are compared in their order if it is `ordered`, which decides every tie."""

    kind: str
    about: str
    sql: str
    ordered: bool = False


def questions(rows: Sizes) -> tuple[Question, ...]:
    """Return the questions over tables of these sizes, of which the keys that are looked up depend."""
    order, other = rows.orders // 3, rows.orders // 7
    rare, usual = rows.customers - 10, rows.customers // 4
    invoices = ", ".join(f"'{invoice(number)}'" for number in range(order, rows.orders, max(rows.orders // 15, 1)))
    page = "/shop/page-12345" if rows.orders >= FULL_ROWS // 10 else "/shop/page-0"
    return (
        Question(COUNTS, "orders by status", "SELECT status, count(*) FROM orders GROUP BY status"),
        Question(
            COUNTS,
            "countries of a day",
            "SELECT country, count(*) FROM orders WHERE day = DATE'2026-02-11' GROUP BY country",
        ),
        Question(
            COUNTS,
            "returned orders by day",
            "SELECT day, count(*) FROM orders WHERE status = 'returned' GROUP BY day ORDER BY day",
            True,
        ),
        Question(
            COUNTS,
            "status of the last week",
            "SELECT status, count(*) FROM orders WHERE day >= DATE'2026-02-23' GROUP BY status",
        ),
        Question(
            COUNTS,
            "a country and a status",
            "SELECT count(*) FROM orders WHERE country = 'C07' AND status = 'delivered'",
        ),
        Question(
            COUNTS,
            "neither status, no discount",
            "SELECT count(*) FROM orders WHERE status NOT IN ('paid', 'shipped') AND discount IS NULL",
        ),
        Question(COUNTS, "a function of a key", "SELECT count(*) FROM orders WHERE lower(country) IN ('c11', 'c12')"),
        Question(
            COUNTS,
            "OR over columns",
            "SELECT count(*) FROM orders WHERE channel = 'shop' OR discount > 0.15 OR status = 'fraud'",
        ),
        Question(COUNTS, "channels of a view", "SELECT country, count(*) FROM phone_orders GROUP BY country"),
        Question(
            COUNTS,
            "pivot by CASE",
            "SELECT channel, count(CASE WHEN status = 'paid' THEN 1 END), "
            "count(CASE WHEN status = 'returned' THEN 1 END) FROM orders GROUP BY channel",
        ),
        Question(
            COUNTS,
            "share of returns by country",
            "WITH a AS (SELECT country, count(*) AS n FROM orders GROUP BY country), b AS (SELECT country, count(*) AS "
            "m FROM orders WHERE status = 'returned' GROUP BY country) SELECT country, m / n FROM a JOIN b "
            "USING (country)",
        ),
        Question(COUNTS, "least and largest customer", "SELECT min(customer), max(customer), count(*) FROM orders"),
        Question(
            COUNTS,
            "kinds of a prefix",
            "SELECT kind, count(*) AS n FROM visits WHERE url LIKE '/shop/page-1%' GROUP BY kind HAVING n > 1",
        ),
        Question(COUNTS, "refunds by reason", "SELECT reason, count(*) FROM refunds GROUP BY reason"),
        Question(SUMS, "revenue by country", "SELECT country, sum(amount) FROM orders GROUP BY country"),
        Question(
            SUMS,
            "sum and mean of a status",
            "SELECT sum(amount), avg(amount), count(*) FROM orders WHERE status = 'returned'",
        ),
        Question(
            SUMS,
            "revenue by day of a channel",
            "SELECT day, sum(amount) FROM orders WHERE channel = 'phone' GROUP BY day ORDER BY day",
            True,
        ),
        Question(
            SUMS,
            "ten customers of most revenue",
            "SELECT customer, sum(amount) AS revenue FROM orders GROUP BY customer ORDER BY revenue DESC, customer "
            "LIMIT 10",
            True,
        ),
        Question(
            SUMS,
            "revenue under two conditions",
            "SELECT sum(amount) FROM orders WHERE channel = 'phone' AND country = 'C03'",
        ),
        Question(
            SUMS,
            "ten countries of most revenue in a month",
            "SELECT country, sum(amount) AS revenue FROM orders WHERE day < DATE'2026-02-01' GROUP BY country "
            "ORDER BY revenue DESC, country LIMIT 10",
            True,
        ),
        Question(
            KEYS,
            "ten customers of most orders",
            "SELECT customer, count(*) AS n FROM orders GROUP BY customer ORDER BY n DESC, customer LIMIT 10",
            True,
        ),
        Question(KEYS, "distinct customers", "SELECT count(DISTINCT customer) FROM orders"),
        Question(
            KEYS, "distinct customers by status", "SELECT status, count(DISTINCT customer) FROM orders GROUP BY status"
        ),
        Question(KEYS, "distinct values", "SELECT DISTINCT country FROM orders WHERE status = 'fraud'"),
        Question(TIMES, "orders by hour of day", "SELECT hour(created), count(*) FROM orders GROUP BY hour(created)"),
        Question(
            TIMES,
            "visits by day",
            "SELECT date_trunc('DAY', at) AS day, count(*) FROM visits GROUP BY 1 ORDER BY day",
            True,
        ),
        Question(
            TIMES,
            "orders of three hours",
            "SELECT id, status, amount FROM orders "
            "WHERE created BETWEEN '2026-01-20 08:00:00' AND '2026-01-20 11:00:00'",
        ),
        Question(
            ROWS,
            "an order by its id",
            f"SELECT id, customer, status, amount, note FROM orders WHERE id = {3 * order + 1}",
        ),
        Question(ROWS, "ten invoices", f"SELECT id, invoice, amount FROM orders WHERE invoice IN ({invoices})"),
        Question(ROWS, "all columns of a rare customer", f"SELECT * FROM orders WHERE customer = {rare}"),
        Question(
            ROWS,
            "orders of a usual customer, nested",
            f"SELECT id, created, amount, lines, address.city FROM orders WHERE customer = {usual}",
        ),
        Question(ROWS, "0.05 % of the rows", "SELECT id, customer, amount, note FROM orders WHERE status = 'fraud'"),
        Question(
            ROWS,
            "twenty newest of a status",
            "SELECT id, created, amount FROM orders WHERE status = 'fraud' ORDER BY created DESC, id LIMIT 20",
            True,
        ),
        Question(
            ROWS,
            "hundred newest of two conditions",
            "SELECT id, created, amount FROM orders WHERE status = 'returned' AND country = 'C20' "
            "ORDER BY created DESC, id LIMIT 100",
            True,
        ),
        Question(ROWS, "visits of a page (ORC)", f"SELECT id, customer, at FROM visits WHERE url = '{page}'"),
        Question(
            JOINS,
            "orders of one e-mail",
            "SELECT o.id, o.amount, c.country FROM orders o JOIN customers c ON o.customer = c.id "
            f"WHERE c.email = 'c{usual}@example.org'",
        ),
        Question(
            JOINS,
            "statuses of platinum customers",
            "SELECT status, count(*) FROM orders WHERE customer IN (SELECT id FROM customers WHERE tier = 'platinum' "
            "AND country IN ('C00', 'C01', 'C02')) GROUP BY status",
        ),
        Question(FIRST, "any row of a frequent value", "SELECT 1 FROM orders WHERE status = 'shipped' LIMIT 1"),
        Question(
            FIRST,
            "EXISTS",
            "SELECT EXISTS (SELECT 1 FROM orders WHERE country = 'C02' AND channel = 'phone') AS any, "
            f"EXISTS (SELECT 1 FROM orders WHERE customer = {rare} AND id = {3 * other + 1}) AS none",
        ),
        Question(
            TEXTS,
            "text and array",
            "SELECT count(*) FROM orders WHERE array_contains(tags, 'b2b') AND note LIKE '%careful%manager%'",
        ),
    )
