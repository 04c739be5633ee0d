-- phase: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhooks_managed_idx ON webhooks (managed_by, store_id)
    WHERE managed_by IS NOT NULL AND ended_at IS NULL;
