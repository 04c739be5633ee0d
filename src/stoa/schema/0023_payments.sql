ALTER TABLE orders DROP CONSTRAINT orders_payment_status_check;
ALTER TABLE orders ADD CONSTRAINT orders_payment_status_check CHECK (payment_status IN (
    'unpaid', 'authorized', 'partially_paid', 'paid', 'overpaid', 'failed', 'voided', 'partially_refunded', 'refunded')) NOT VALID;
ALTER TABLE orders ADD COLUMN paid_at timestamptz, ADD COLUMN refunded_at timestamptz;
