-- phase: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS variants_gtin_idx ON variants (store_id, gtin)
    WHERE deleted_at IS NULL AND gtin IS NOT NULL;
