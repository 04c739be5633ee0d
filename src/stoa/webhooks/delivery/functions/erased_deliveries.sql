-- Over all stores: a worker asks about all its lanes at once.
-- Returns the pending deliveries of these lanes that an erasure has marked, because their events were about the person.
CREATE FUNCTION erased_deliveries(in_lanes json) RETURNS TABLE (webhook_id bigint, sequence bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.webhook_id, p.sequence
      FROM json_to_recordset(in_lanes) AS t (store_id bigint, webhook_id bigint)
           CROSS JOIN LATERAL (
           -- In the order of the index that finds them; another one would read all pending deliveries of the lane.
           SELECT q.webhook_id, q.sequence FROM pending_deliveries q
            WHERE q.store_id = t.store_id AND q.webhook_id = t.webhook_id AND q.due_at <= '-infinity'
            ORDER BY q.due_at, q.sequence OFFSET 0) p;
END $$;
