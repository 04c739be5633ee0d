-- phase: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_expires_at_idx ON orders (store_id, expires_at, id) WHERE expires_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_due_idx ON orders (expires_at, store_id, id) WHERE expires_at IS NOT NULL;
