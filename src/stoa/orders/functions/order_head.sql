-- The head of an order for release 0.3.0, which knows fewer payment statuses. It keeps the records, and sees their sums.
CREATE FUNCTION order_head(head text, edition smallint)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN
    replace(replace(head, ',"payment_status":"partially_paid"', ',"payment_status":"unpaid"'),
            ',"payment_status":"overpaid"', ',"payment_status":"paid"');
