-- What random queries have found: each of these was answered wrongly once.
SELECT sale_id FROM sales s WHERE item_id = 3 AND EXISTS (SELECT max(t.city) FROM stores t WHERE t.store_id = s.store_id AND t.state = 'IL');
SELECT sale_id FROM sales s WHERE EXISTS (SELECT count(*) AS n FROM stores t WHERE t.store_id = s.store_id AND t.state = 'XX') AND channel = 'phone';
SELECT sale_id FROM sales s WHERE EXISTS (SELECT (1 + any_value(1)) FROM refunds r WHERE r.store_id = s.store_id AND r.refunded > 98) AND s.item_id = 4;
