-- The deliveries that come next in each lane, with their events; of a lane that is probed, the first one, due or not.
CREATE FUNCTION lane_heads(l_bucket smallint[], l_webhook bigint[], l_limit integer[], l_probe boolean[])
RETURNS TABLE (webhook_id bigint, sequence bigint, attempt_count integer, attempts text, routed_at timestamptz,
               store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT p.webhook_id, p.sequence, p.attempt_count, p.attempts, p.created_at, p.store_id, p.event_id, p.event_type,
           p.resource_type, p.resource_id, e.resource_version, e.actor, e.changes, e.data, e.created_at
      FROM unnest(l_bucket, l_webhook, l_limit, l_probe) WITH ORDINALITY AS t (bucket, webhook_id, most, probe, n)
           CROSS JOIN LATERAL (
           SELECT q.* FROM pending_deliveries q
            WHERE q.bucket = t.bucket AND q.webhook_id = t.webhook_id
              AND q.due_at <= CASE WHEN t.probe THEN 'infinity' ELSE moment END
            ORDER BY q.due_at, q.sequence LIMIT t.most) p
           -- An event that is there no more leaves its data null.
           LEFT JOIN events e ON e.store_id = p.store_id AND e.id = p.event_id AND e.routed_on = p.event_day;
END $$;
