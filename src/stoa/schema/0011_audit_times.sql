-- phase: concurrently
-- The chains that have grown since a moment are found by it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS audit_entries_created_at_idx ON audit_entries (created_at);
