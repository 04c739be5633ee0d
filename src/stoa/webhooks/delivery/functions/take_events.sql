CREATE FUNCTION take_events(in_buckets smallint[], in_limit integer)
RETURNS TABLE (event waiting_event, listener subscribers)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    mine   smallint[];
    stores bigint[] := '{}';
    size   bigint := 0;
BEGIN
    PERFORM pg_advisory_unlock_all();
    mine := ARRAY(SELECT m.bucket FROM unnest(in_buckets) AS m (bucket) WHERE pg_try_advisory_lock(64, m.bucket));
    FOR event IN
        SELECT e.store_id, e.id, e.type, e.resource_type, e.resource_id, e.resource_version, e.actor, e.changes,
               CASE WHEN e.type = 'app.uninstalled' OR (
                         SELECT true FROM webhooks w WHERE w.store_id = e.store_id AND w.ended_at IS NULL LIMIT 1)
                    THEN e.data ELSE '' END, e.created_at
          FROM unnest(mine) AS m (bucket) CROSS JOIN LATERAL (
               SELECT x.* FROM events x WHERE x.routed_on = 'infinity' AND x.store_id % 64 = m.bucket
                ORDER BY x.store_id % 64, x.position LIMIT in_limit) e
         LIMIT in_limit
    LOOP
        RETURN NEXT;
        IF event.data <> '' AND NOT event.store_id = ANY (stores) THEN
            stores := stores || event.store_id;
        END IF;
        -- A worker has room for so much at once; what is left comes with the next look.
        size := size + length(event.data);
        EXIT WHEN size > 16000000;
    END LOOP;
    -- Read after the events: what was subscribed to before an event was committed is seen here.
    RETURN QUERY SELECT NULL::waiting_event, s FROM subscribers s WHERE s.store_id = ANY (stores) AND NOT s.ended ORDER BY s.id;
END $$;
