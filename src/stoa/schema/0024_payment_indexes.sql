-- phase: concurrently
ALTER TABLE orders VALIDATE CONSTRAINT orders_payment_status_check;
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_paid_idx ON orders (store_id, paid_at, id) WHERE paid_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_refunded_idx ON orders (store_id, refunded_at, id) WHERE refunded_at IS NOT NULL;
