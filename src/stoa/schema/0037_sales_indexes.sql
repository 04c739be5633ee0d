-- phase: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_sales_idx ON orders (store_id, placed_at, id) INCLUDE (status, total);
CREATE INDEX CONCURRENTLY IF NOT EXISTS variants_scarce_idx ON variants (store_id, product_id) WHERE deleted_at IS NULL AND track_inventory AND on_hand - reserved <= coalesce(low_stock_threshold, 0);
DROP INDEX CONCURRENTLY IF EXISTS orders_placed_at_idx;
