-- Over all stores: the router polls the outbox of all stores.
-- Looks at up to in_limit unrouted events on every node and returns, for each store, whether it has subscriptions. Events of a
-- store without subscriptions are marked as routed without being read; the endpoint of an app counts only for its own few
-- events. `app.uninstalled` is left to the router, which ends subscriptions.
CREATE FUNCTION skip_unsubscribed_events(in_day date, in_limit integer)
RETURNS TABLE (store_id bigint, subscribed boolean, count bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    buckets     smallint[];
    in_store_id bigint;
    unread      text[];
BEGIN
    buckets := ARRAY(SELECT DISTINCT o.bucket
                       FROM (SELECT e.store_id % 64 AS bucket FROM events e WHERE e.routed_on = 'infinity' LIMIT 20000) o);
    IF buckets = '{}' THEN
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Only buckets that no router leases; none can lease them before this transaction ends.
    buckets := ARRAY(SELECT l.bucket FROM routing_leases l
                      WHERE l.bucket = ANY (buckets) AND l.until <= clock_timestamp() FOR UPDATE SKIP LOCKED);
    FOR in_store_id, subscribed, count, unread IN
        SELECT n.store_id, bool_or(n.subscribed), count(*), array_agg(n.id) FILTER (WHERE NOT n.subscribed)
          FROM (SELECT e.store_id, e.id, e.type = 'app.uninstalled' OR EXISTS (
                       SELECT 1 FROM webhooks w WHERE w.store_id = e.store_id AND w.ended_at IS NULL
                          AND (NOT w.of_app OR e.type = ANY (w.events))) AS subscribed
                  FROM events e WHERE e.routed_on = 'infinity' AND e.store_id % 64 = ANY (buckets)
                 ORDER BY e.position LIMIT in_limit) n
         GROUP BY n.store_id ORDER BY n.store_id
    LOOP
        IF unread IS NOT NULL THEN
            UPDATE events e SET routed_on = in_day
             WHERE e.store_id = in_store_id AND e.id = ANY (unread) AND e.routed_on = 'infinity';
        END IF;
        store_id := in_store_id;
        RETURN NEXT;
    END LOOP;
END $$;
