-- phase: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS products_slug_idx ON products (store_id, slug) WHERE deleted_at IS NULL;
