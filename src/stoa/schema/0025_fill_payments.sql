-- phase: backfill
WITH batch AS (
    SELECT id, order_purchase(head, lines, edition) AS head
      FROM orders WHERE store_id = $1 AND id > $2 ORDER BY id LIMIT $3 FOR NO KEY UPDATE
), derived AS (
    SELECT b.id, member_text(b.head, 'payment_status') AS payment_status, d.paid_at, d.refunded_at
      FROM batch b CROSS JOIN LATERAL record_dates(b.head) AS d
), filled AS (
    UPDATE orders o SET payment_status = d.payment_status, paid_at = d.paid_at, refunded_at = d.refunded_at FROM derived d
     WHERE o.store_id = $1 AND o.id = d.id
       AND (o.payment_status, o.paid_at, o.refunded_at) IS DISTINCT FROM (d.payment_status, d.paid_at, d.refunded_at)
)
SELECT max(id) FROM batch;
