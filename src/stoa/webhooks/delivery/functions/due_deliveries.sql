-- Over all stores: a worker reads the next deliveries of several lanes at once.
-- Returns the deliveries that are due in each lane, with their events. A lane that is probed gets its first delivery, due or not.
CREATE FUNCTION due_deliveries(in_lanes json)
RETURNS TABLE (store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz, parent_version integer, app_views text, webhook_id bigint, sequence bigint,
               attempt_count integer, attempts text, routed_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    -- The data of an expired event is empty.
    SELECT p.store_id, p.event_id, p.event_type, p.resource_type, p.resource_id, p.resource_version,
           coalesce(e.actor, '{}'), coalesce(e.changes, '{}'), coalesce(e.data, ''), coalesce(e.created_at, p.created_at),
           e.parent_version, e.app_views, p.webhook_id, p.sequence, p.attempt_count, p.attempts, p.created_at
      FROM json_to_recordset(in_lanes) AS t (store_id bigint, webhook_id bigint, max_deliveries integer, probe boolean)
           CROSS JOIN LATERAL (
           SELECT q.* FROM pending_deliveries q
            WHERE q.store_id = t.store_id AND q.webhook_id = t.webhook_id AND NOT store_has_left(t.store_id)
              AND q.due_at <= CASE WHEN t.probe THEN 'infinity' ELSE moment END
            ORDER BY q.due_at, q.sequence LIMIT t.max_deliveries) p
           LEFT JOIN events e ON e.store_id = p.store_id AND e.id = p.event_id AND e.routed_on = p.event_day;
END $$;
