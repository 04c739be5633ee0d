-- Over all stores: the router polls the outbox of all stores.
-- Looks at up to in_limit unrouted events and returns, for each store, whether it has subscriptions. Events of a store without
-- subscriptions are marked as routed without being read; the endpoint of an app counts only for its own few events.
-- `app.uninstalled` is left to the router, which ends subscriptions.
CREATE FUNCTION skip_unsubscribed_events(in_day date, in_limit integer)
RETURNS TABLE (store_id bigint, subscribed boolean, count bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    -- The order forces the index of the buckets: the plan is made while the table is empty, when every index looks as good.
    buckets smallint[] := ARRAY(
        SELECT b.bucket FROM generate_series(0, 63) AS b (bucket)
         WHERE (SELECT true FROM events e WHERE e.routed_on = 'infinity' AND e.store_id % 64 = b.bucket
                 ORDER BY e.position LIMIT 1));
BEGIN
    IF buckets = '{}' THEN
        RETURN;
    END IF;
    -- The next poll repeats what a crash of the database undoes.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Only buckets that no router leases; none can lease them before this transaction ends.
    buckets := ARRAY(SELECT l.bucket FROM routing_leases l
                      WHERE l.bucket = ANY (buckets) AND l.until <= clock_timestamp() FOR UPDATE SKIP LOCKED);
    -- In random order, so that a bucket with a large backlog does not starve the others.
    buckets := ARRAY(SELECT m.bucket FROM unnest(buckets) AS m (bucket) ORDER BY random());
    RETURN QUERY
    WITH next AS MATERIALIZED (
        SELECT e.store_id, e.id, e.type = 'app.uninstalled' OR coalesce((
               SELECT true FROM webhooks w WHERE w.store_id = e.store_id AND w.ended_at IS NULL
                  AND (NOT w.of_app OR e.type = ANY (w.events)) LIMIT 1), false) AS subscribed
          FROM unnest(buckets) AS m (bucket) CROSS JOIN LATERAL (
               SELECT x.store_id, x.id, x.type FROM events x WHERE x.routed_on = 'infinity' AND x.store_id % 64 = m.bucket
                  AND NOT store_has_left(x.store_id)
                ORDER BY x.store_id % 64, x.position LIMIT in_limit) e
         LIMIT in_limit),
    skipped AS (
        UPDATE events e SET routed_on = in_day FROM next n
         WHERE NOT n.subscribed AND e.store_id = n.store_id AND e.id = n.id AND e.routed_on = 'infinity')
    SELECT n.store_id, bool_or(n.subscribed), count(*) FROM next n GROUP BY n.store_id;
END $$;
