-- Over all stores: the router takes the events of one or more buckets, and each bucket holds many stores.
-- Leases those of in_buckets that have unrouted events and that no other router leases, and returns their next events in order.
-- route_events accepts the events only under the same holder and token, and ends the leases. The data of an event is empty if
-- its store has no subscriptions; the endpoint of an app counts only for its own few events. The events of in_stores are the only
-- ones, or are left out.
CREATE FUNCTION take_events(
    in_buckets smallint[], in_limit integer, in_max_bytes bigint, in_holder text, in_token bigint, in_lease interval,
    in_stores bigint[], in_only boolean)
RETURNS TABLE (store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz, parent_version integer, app_views text,
               audience bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    moment  timestamptz := clock_timestamp();
    buckets smallint[];
    size    bigint := 0;
BEGIN
    -- In the order of in_buckets: the first ones fill the batch.
    buckets := ARRAY(
        SELECT l.bucket FROM unnest(in_buckets) WITH ORDINALITY AS m (bucket, n) JOIN routing_leases l ON l.bucket = m.bucket
         WHERE (l.until <= moment OR l.holder = in_holder)
           AND (SELECT true FROM events e WHERE e.routed_on = 'infinity' AND e.store_id % 64 = m.bucket
                                           AND (e.store_id = ANY (in_stores)) = in_only AND NOT store_has_left(e.store_id)
                 LIMIT 1)
         ORDER BY m.n FOR UPDATE OF l SKIP LOCKED);
    IF buckets = '{}' THEN
        RETURN;
    END IF;
    UPDATE routing_leases l SET holder = in_holder, token = in_token, until = moment + in_lease, renewed_at = moment
     WHERE l.bucket = ANY (buckets);
    -- A lease that a crash of the database undoes was never used, because routing waits for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- This statement sees all that the previous holder routed, because the lease was free when it was locked.
    FOR store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, created_at, parent_version,
        app_views, audience IN
        SELECT e.store_id, e.id, e.type, e.resource_type, e.resource_id, e.resource_version, e.actor, e.changes,
               CASE WHEN e.type = 'app.uninstalled' OR (
                         SELECT true FROM webhooks w WHERE w.store_id = e.store_id AND w.ended_at IS NULL
                            AND (NOT w.of_app OR e.type = ANY (w.events)) LIMIT 1)
                    THEN e.data ELSE '' END, e.created_at, e.parent_version, e.app_views, e.audience
          FROM unnest(buckets) AS m (bucket) CROSS JOIN LATERAL (
               SELECT x.* FROM events x WHERE x.routed_on = 'infinity' AND x.store_id % 64 = m.bucket
                  AND (x.store_id = ANY (in_stores)) = in_only AND NOT store_has_left(x.store_id)
                ORDER BY x.store_id % 64, x.position LIMIT in_limit) e
         LIMIT in_limit
    LOOP
        RETURN NEXT;
        -- Bounds the memory of the worker; the rest follows with the next call.
        size := size + length(data) + coalesce(length(app_views), 0);
        EXIT WHEN size > in_max_bytes;
    END LOOP;
END $$;
