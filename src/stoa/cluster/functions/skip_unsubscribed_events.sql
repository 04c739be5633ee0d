-- Over all stores: the router polls the outbox of all stores.
-- Looks at up to in_limit unrouted events on the nodes that can be reached and returns, for each store, whether it has
-- subscriptions. Events of a store without subscriptions are marked as routed without being read; the endpoint of an app counts
-- only for its own few events. `app.uninstalled` is left to the router, which ends subscriptions.
CREATE FUNCTION skip_unsubscribed_events(in_day date, in_limit integer)
RETURNS TABLE (store_id bigint, subscribed boolean, count bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    buckets     smallint[];
    stores      bigint[];
    in_store_id bigint;
    event       text;
    is_read     boolean;
    found       bigint[] := '{}';   -- the store of each event,
    events      text[] := '{}';     -- its id,
    read        boolean[] := '{}';  -- and whether a subscription may receive it
    unread      text[];
BEGIN
    BEGIN
        stores := ARRAY(SELECT DISTINCT o.store_id
                          FROM (SELECT e.store_id FROM events e WHERE e.routed_on = 'infinity' LIMIT 20000) o);
    EXCEPTION WHEN connection_exception OR admin_shutdown OR crash_shutdown OR cannot_connect_now OR internal_error OR io_error THEN
        stores := reached_stores('events', 'routed_on = ''infinity''');
    END;
    IF stores = '{}' THEN
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Only buckets that no router leases; none can lease them before this transaction ends.
    buckets := ARRAY(SELECT l.bucket FROM routing_leases l
                      WHERE l.bucket = ANY (ARRAY(SELECT DISTINCT t.store_id % 64 FROM unnest(stores) AS t (store_id)))
                        AND l.until <= clock_timestamp() FOR UPDATE SKIP LOCKED);
    -- At random, so that no store waits for ever if there are more.
    stores := ARRAY(SELECT t.store_id FROM unnest(stores) AS t (store_id) WHERE t.store_id % 64 = ANY (buckets)
                     ORDER BY random() LIMIT in_limit);
    IF stores = '{}' THEN
        RETURN;
    END IF;
    -- Grouped here, because Citus would let any node group the rows, also one that is away.
    FOR in_store_id, event, is_read IN
        SELECT e.store_id, e.id, e.type = 'app.uninstalled' OR EXISTS (
               SELECT 1 FROM webhooks w WHERE w.store_id = e.store_id AND w.store_id = ANY (stores) AND w.ended_at IS NULL
                  AND (NOT w.of_app OR e.type = ANY (w.events)))
          FROM events e
         WHERE e.routed_on = 'infinity' AND e.store_id % 64 = ANY (buckets) AND e.store_id = ANY (stores)
         ORDER BY e.position LIMIT in_limit
    LOOP
        found := found || in_store_id;
        events := events || event;
        read := read || is_read;
    END LOOP;
    FOR in_store_id, subscribed, count, unread IN
        SELECT n.store_id, bool_or(n.read), count(*), array_agg(n.id) FILTER (WHERE NOT n.read)
          FROM unnest(found, events, read) AS n (store_id, id, read)
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
