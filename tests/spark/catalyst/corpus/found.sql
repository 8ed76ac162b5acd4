-- What random queries have found: each of these was answered wrongly once.
SELECT sale_id FROM sales s WHERE item_id = 3 AND EXISTS (SELECT max(t.city) FROM stores t WHERE t.store_id = s.store_id AND t.state = 'IL') /* rows: sales stores */;
SELECT sale_id FROM sales s WHERE EXISTS (SELECT count(*) AS n FROM stores t WHERE t.store_id = s.store_id AND t.state = 'XX') AND channel = 'phone' /* rows: sales stores */;
SELECT sale_id FROM sales s WHERE EXISTS (SELECT (1 + any_value(1)) FROM refunds r WHERE r.store_id = s.store_id AND r.refunded > 98) AND s.item_id = 4 /* rows: sales */;
SELECT count(`x.y`.sale_id) AS n FROM sales AS `x.y` JOIN stores AS y ON `x.y`.store_id = y.store_id WHERE y.state = 'IL' /* rows: sales */;
SELECT `x.y`.sale_id FROM sales AS `x.y`, refunds AS y WHERE `x.y`.sale_id = y.sale_id AND y.store_id = 3 /* rows: refunds */;
SELECT `s.t`.store_id, count(*) AS n FROM sales AS `s.t` WHERE `s.t`.item_id = 4 GROUP BY `s.t`.store_id /* rows: sales */ /* index: sales */;
SELECT 1 AS x WHERE EXISTS (SELECT store_id FROM sales WHERE store_id = 1 EXCEPT ALL SELECT store_id FROM stores WHERE store_id = 1) /* rows: sales stores */;
SELECT 1 AS x WHERE EXISTS (SELECT store_id FROM sales WHERE store_id = 1 UNION ALL SELECT store_id FROM stores WHERE store_id = 1 LIMIT 9 OFFSET 3) /* rows: sales stores */;
SELECT sale_id FROM sales WHERE item_id = 3 AND EXISTS (SELECT store_id FROM sales WHERE store_id = 1 EXCEPT ALL SELECT 1) /* rows: sales sales */;
SELECT count(s.sale_id) AS n FROM sales s WHERE EXISTS (SELECT 1 FROM stores t LEFT ANTI JOIN refunds r ON t.store_id = r.store_id AND r.reason = 'late' WHERE s.store_id = item_id) /* rows: refunds */;
SELECT count(r.sale_id) AS n FROM sales s JOIN refunds r ON s.sale_id = r.sale_id WHERE EXISTS (SELECT 1 FROM stores t LEFT ANTI JOIN refunds r ON t.store_id = r.store_id AND r.year = 2023 WHERE s.store_id = r.store_id);
SELECT count(r.sale_id) AS n FROM sales s JOIN refunds r ON s.sale_id = r.sale_id WHERE EXISTS (SELECT 1 FROM stores t LEFT SEMI JOIN refunds r ON t.store_id = r.store_id AND r.reason = 'late' WHERE s.store_id = r.store_id) /* rows: stores */;
SELECT s.sale_id FROM sales s WHERE s.item_id IN (SELECT item_id FROM stores t LEFT SEMI JOIN promotions p ON t.store_id = p.percent) AND s.store_id = 2 /* rows: sales */;
