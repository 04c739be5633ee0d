-- phase: concurrently
-- Finds the failing receivers of a developer's apps.
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhooks_app_idx ON webhooks (app_id) WHERE ended_at IS NULL;
