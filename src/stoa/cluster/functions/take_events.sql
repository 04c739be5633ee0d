-- Over all stores: the router takes the events of one or more buckets, and each bucket holds many stores.
-- Leases those of in_buckets that have unrouted events and that no other router leases, and returns their oldest events, of all
-- nodes that can be reached. route_events accepts the events only under the same holder and token, and ends the leases. The data of an event is
-- empty if its store has no subscriptions; the endpoint of an app counts only for its own few events. The events of in_stores are
-- the only ones, or are left out.
CREATE FUNCTION take_events(
    in_buckets smallint[], in_limit integer, in_max_bytes bigint, in_holder text, in_token bigint, in_lease interval,
    in_stores bigint[], in_only boolean)
RETURNS TABLE (store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz, parent_version integer, app_views text,
               audience bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    moment  timestamptz := clock_timestamp();
    buckets smallint[];
    stores  bigint[];
    size    bigint := 0;
BEGIN
    BEGIN
        stores := ARRAY(SELECT DISTINCT o.store_id
                          FROM (SELECT e.store_id FROM events e
                                 WHERE e.routed_on = 'infinity' AND e.store_id % 64 = ANY (in_buckets)
                                   AND (e.store_id = ANY (in_stores)) = in_only LIMIT 20000) o);
    EXCEPTION WHEN connection_exception OR admin_shutdown OR crash_shutdown OR cannot_connect_now OR internal_error OR io_error THEN
        stores := reached_stores('events', format('routed_on = ''infinity'' AND store_id %% 64 = ANY (%L)
                                                AND (store_id = ANY (%L)) = %L', in_buckets, in_stores, in_only));
    END;
    buckets := ARRAY(SELECT l.bucket FROM routing_leases l
                      WHERE l.bucket = ANY (ARRAY(SELECT DISTINCT t.store_id % 64 FROM unnest(stores) AS t (store_id)))
                        AND (l.until <= moment OR l.holder = in_holder) FOR UPDATE SKIP LOCKED);
    IF buckets = '{}' THEN
        RETURN;
    END IF;
    UPDATE routing_leases l SET holder = in_holder, token = in_token, until = moment + in_lease, renewed_at = moment
     WHERE l.bucket = ANY (buckets);
    -- At random, so that no store waits for ever if there are more.
    stores := ARRAY(SELECT t.store_id FROM unnest(stores) AS t (store_id) WHERE t.store_id % 64 = ANY (buckets)
                     ORDER BY random() LIMIT in_limit);
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, created_at, parent_version,
        app_views, audience IN
        SELECT e.store_id, e.id, e.type, e.resource_type, e.resource_id, e.resource_version, e.actor, e.changes,
               CASE WHEN e.type = 'app.uninstalled' OR EXISTS (
                         SELECT 1 FROM webhooks w WHERE w.store_id = e.store_id AND w.store_id = ANY (stores) AND w.ended_at IS NULL
                            AND (NOT w.of_app OR e.type = ANY (w.events)))
                    THEN e.data ELSE '' END, e.created_at, e.parent_version, e.app_views, e.audience
          FROM events e
         WHERE e.routed_on = 'infinity' AND e.store_id % 64 = ANY (buckets) AND e.store_id = ANY (stores)
         ORDER BY e.position LIMIT in_limit
    LOOP
        RETURN NEXT;
        -- Bounds the memory of the worker; the rest follows with the next call.
        size := size + length(data) + coalesce(length(app_views), 0);
        EXIT WHEN size > in_max_bytes;
    END LOOP;
END $$;
