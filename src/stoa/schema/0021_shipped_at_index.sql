-- phase: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_shipped_at_idx ON orders (store_id, shipped_at, id) WHERE shipped_at IS NOT NULL;
