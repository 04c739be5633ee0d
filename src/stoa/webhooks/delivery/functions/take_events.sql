-- Over all stores: the router takes the events of one or more buckets, and each bucket holds many stores.
-- Releases the buckets that this session has locked, locks those of in_buckets that no other session holds, and returns their
-- next events in order. The data of an event is empty if its store has no subscriptions; the endpoint of an app counts only for
-- its own few events.
CREATE FUNCTION take_events(in_buckets smallint[], in_limit integer)
RETURNS TABLE (store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz, parent_version integer, audience bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    buckets smallint[];
    size    bigint := 0;
BEGIN
    PERFORM pg_advisory_unlock_all();
    buckets := ARRAY(SELECT m.bucket FROM unnest(in_buckets) AS m (bucket) WHERE pg_try_advisory_lock(64, m.bucket));
    FOR store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, created_at, parent_version,
        audience IN
        SELECT e.store_id, e.id, e.type, e.resource_type, e.resource_id, e.resource_version, e.actor, e.changes,
               CASE WHEN e.type = 'app.uninstalled' OR (
                         SELECT true FROM webhooks w WHERE w.store_id = e.store_id AND w.ended_at IS NULL
                            AND (NOT w.of_app OR e.type = ANY (w.events)) LIMIT 1)
                    THEN e.data ELSE '' END, e.created_at, e.parent_version, e.audience
          FROM unnest(buckets) AS m (bucket) CROSS JOIN LATERAL (
               SELECT x.* FROM events x WHERE x.routed_on = 'infinity' AND x.store_id % 64 = m.bucket
                ORDER BY x.store_id % 64, x.position LIMIT in_limit) e
         LIMIT in_limit
    LOOP
        RETURN NEXT;
        -- Bounds the memory of the worker; the rest follows with the next call.
        size := size + length(data);
        EXIT WHEN size > 16000000;
    END LOOP;
END $$;
