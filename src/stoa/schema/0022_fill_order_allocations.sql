-- phase: backfill
WITH batch AS (
    SELECT id, lines, head, fulfillment_status FROM orders
     WHERE store_id = $1 AND id > $2 ORDER BY id LIMIT $3 FOR NO KEY UPDATE
), allocated AS (
    INSERT INTO order_allocations (store_id, order_id, line_id, location, reserved, shipped)
    SELECT $1, b.id, a.line_id, a.location, a.reserved, a.shipped
      FROM batch b CROSS JOIN LATERAL allocated_elsewhere(b.lines) AS a
        ON CONFLICT ON CONSTRAINT order_allocations_pkey DO NOTHING
), filled AS (
    UPDATE orders o SET shipped_at = (record_dates(b.head)).shipped_at FROM batch b
     WHERE o.store_id = $1 AND o.id = b.id AND b.fulfillment_status <> 'unfulfilled' AND o.shipped_at IS NULL
)
SELECT max(id) FROM batch;
