-- phase: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS audit_entries_order_actor_idx ON audit_entries (store_id, actor, position) WHERE subject LIKE 'order:%';
