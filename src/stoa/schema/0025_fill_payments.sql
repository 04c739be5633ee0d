-- phase: backfill
-- Also stores the completed document: to complete it whenever it is read takes half a millisecond of each order in a list.
WITH batch AS (
    SELECT id, order_purchase(head, lines, edition) AS head, order_items(lines, edition) AS lines,
           order_person(person, edition) AS person
      FROM orders WHERE store_id = $1 AND id > $2 ORDER BY id LIMIT $3 FOR NO KEY UPDATE
), derived AS (
    SELECT b.id, b.head, b.lines, b.person, member_text(b.head, 'payment_status') AS payment_status, d.paid_at, d.refunded_at
      FROM batch b CROSS JOIN LATERAL record_dates(b.head) AS d
), filled AS (
    UPDATE orders o SET payment_status = d.payment_status, paid_at = d.paid_at, refunded_at = d.refunded_at, head = d.head,
                        lines = d.lines, person = d.person, edition = greatest(o.edition, 2)
      FROM derived d
     WHERE o.store_id = $1 AND o.id = d.id
       AND (o.edition < 2 OR (o.payment_status, o.paid_at, o.refunded_at) IS DISTINCT FROM (d.payment_status, d.paid_at, d.refunded_at))
)
SELECT max(id) FROM batch;
