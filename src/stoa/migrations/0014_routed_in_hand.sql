-- Puts deliveries (d_) of events (e_) into their lanes, in the order given, and marks the events as routed.
-- d_event counts the events of this call, from 1; a lane that is not to be woken is only filled. Lanes in which nothing
-- waited are taken for in_owner in the same breath, and returned: whoever routed their deliveries has them in hand, and need
-- not ask for them again. Where in_owner is empty, none is taken.
DROP FUNCTION route_events(date, bigint[], text[], text[], text[], bigint[], integer[], integer[], bigint[], boolean[], boolean[]);
CREATE FUNCTION route_events(
    in_day date, in_owner text, in_beat interval, in_lease interval, e_store bigint[], e_id text[], e_type text[],
    e_resource_type text[], e_resource_id bigint[], e_version integer[], d_event integer[], d_webhook bigint[],
    d_ordered boolean[], d_wake boolean[]
) RETURNS SETOF lanes LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz;
    idle   bigint[];  -- the lanes that are ours to take
BEGIN
    IF d_event <> '{}' THEN
        -- Whoever holds several lanes takes them in the order of buckets and ids.
        SELECT array_agg(t.webhook_id) FILTER (
                   WHERE in_owner <> '' AND t.owner = '' AND t.waiting = 0 AND t.due_at IS NULL AND t.breaker = 'closed'
                     AND (t.hold_until IS NULL OR t.hold_until <= clock_timestamp()))
          INTO idle
          FROM (SELECT l.* FROM (SELECT DISTINCT (e_store[d.event] % 64)::smallint AS bucket, d.webhook_id
                                   FROM unnest(d_event, d_webhook) AS d (event, webhook_id)) u
                                JOIN lanes l ON l.bucket = u.bucket AND l.webhook_id = u.webhook_id
                 ORDER BY l.bucket, l.webhook_id FOR UPDATE OF l) t;
        moment := clock_timestamp();
        INSERT INTO pending_deliveries (bucket, webhook_id, sequence, store_id, event_id, event_day, event_type,
                                        resource_type, resource_id, resource_version, ordered_by, due_at, created_at)
        SELECT l.bucket, l.webhook_id, l.next_sequence + d.place - 1, l.store_id, e_id[d.event], in_day, e_type[d.event],
               e_resource_type[d.event], e_resource_id[d.event], e_version[d.event], d.ordered_by,
               CASE WHEN d.ordered_by IS NOT NULL AND (d.turn > 1 OR (
                         SELECT p.sequence FROM pending_deliveries p
                          WHERE p.bucket = d.bucket AND p.webhook_id = d.webhook_id AND p.ordered_by = d.ordered_by
                          ORDER BY p.ordered_by, p.sequence LIMIT 1) IS NOT NULL)
                    THEN 'infinity' ELSE moment END,
               moment
          FROM (SELECT t.*, row_number() OVER (PARTITION BY t.webhook_id ORDER BY t.n) AS place,
                       row_number() OVER (PARTITION BY t.webhook_id, t.ordered_by ORDER BY t.n) AS turn
                  FROM (SELECT (e_store[u.event] % 64)::smallint AS bucket, u.webhook_id, u.event, u.n,
                               CASE WHEN u.ordered THEN e_resource_type[u.event] || ':' || e_resource_id[u.event] END
                               AS ordered_by
                          FROM unnest(d_event, d_webhook, d_ordered) WITH ORDINALITY
                               AS u (event, webhook_id, ordered, n)) t) d
               JOIN lanes l ON l.bucket = d.bucket AND l.webhook_id = d.webhook_id;
        RETURN QUERY
        WITH filled AS (
            UPDATE lanes l
               SET next_sequence = l.next_sequence + d.count, waiting = l.waiting + d.count,
                   owner = CASE WHEN d.taken THEN in_owner ELSE l.owner END,
                   epoch = l.epoch + d.taken::integer,
                   lease_until = CASE WHEN d.taken THEN moment + in_lease ELSE l.lease_until END,
                   due_at = CASE WHEN d.taken THEN moment + least(in_beat, in_lease)
                                 WHEN l.owner <> '' OR NOT d.wake THEN l.due_at
                                 ELSE lane_due(least(l.due_at, moment), l.hold_until) END
              FROM (SELECT (e_store[t.event] % 64)::smallint AS bucket, t.webhook_id, count(*) AS count,
                           bool_or(t.wake) AS wake,
                           bool_or(t.wake) AND t.webhook_id = ANY (coalesce(idle, '{}')) AS taken
                      FROM unnest(d_event, d_webhook, d_wake) AS t (event, webhook_id, wake) GROUP BY 1, 2) d
             WHERE l.bucket = d.bucket AND l.webhook_id = d.webhook_id
            RETURNING l.*)
        SELECT f.* FROM filled f WHERE f.owner = in_owner AND f.webhook_id = ANY (idle);
    END IF;
    UPDATE events e SET routed_on = in_day FROM unnest(e_store, e_id) AS t (store_id, id)
     WHERE e.store_id = t.store_id AND e.id = t.id AND e.routed_on = 'infinity';
END $$;

-- A bucket is routed by one worker at a time, which holds it by a lock of its session, from the look at its events until they
-- are committed in their lanes: no transaction has to be kept open for it. Class 64 of the advisory locks is theirs.

-- Looks at what waits to be routed, up to in_limit events: tells of each store whether anybody there listens. Where nobody
-- does, the events are marked as routed right away, and nobody need read them; how an app's end is told is decided elsewhere.
CREATE OR REPLACE FUNCTION look_over_events(in_day date, in_limit integer)
RETURNS TABLE (store_id bigint, heard boolean, count bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    mine smallint[] := ARRAY(
        SELECT b.bucket FROM generate_series(0, 63) AS b (bucket)
         WHERE (SELECT true FROM events e WHERE e.routed_on = 'infinity' AND e.store_id % 64 = b.bucket LIMIT 1));
BEGIN
    IF mine = '{}' THEN
        RETURN;
    END IF;
    -- In another order each time, so that one in which very many wait hides no other for long.
    mine := ARRAY(SELECT m.bucket FROM unnest(mine) AS m (bucket)
                   WHERE pg_try_advisory_xact_lock(64, m.bucket) ORDER BY random());
    RETURN QUERY
    WITH next AS MATERIALIZED (
        SELECT e.store_id, e.id, e.type = 'app.uninstalled' OR coalesce((
               SELECT true FROM webhooks w WHERE w.store_id = e.store_id AND w.ended_at IS NULL LIMIT 1), false) AS heard
          FROM unnest(mine) AS m (bucket) CROSS JOIN LATERAL (
               SELECT x.store_id, x.id, x.type FROM events x WHERE x.routed_on = 'infinity' AND x.store_id % 64 = m.bucket
                ORDER BY x.store_id % 64, x.position LIMIT in_limit) e
         LIMIT in_limit),
    passed AS (
        UPDATE events e SET routed_on = in_day FROM next n
         WHERE NOT n.heard AND e.store_id = n.store_id AND e.id = n.id AND e.routed_on = 'infinity')
    SELECT n.store_id, bool_or(n.heard), count(*) FROM next n GROUP BY n.store_id;
END $$;

-- A subscription as those who route and send need it: what it hears, where to send, how fast, and whether it may hear at all.
CREATE VIEW subscribers AS
    SELECT w.store_id, w.id, w.app_id, w.events, w.filter, w.skip_own, w.ordering = 'resource' AS ordered,
           i.scopes AS granted, w.url, w.payload, w.fields, w.sealed_headers, w.sealed_secret,
           CASE WHEN w.old_secret_expires_at > now() THEN w.sealed_old_secret END AS sealed_old_secret,
           w.status, w.max_in_flight, w.rate_per_s, w.skip_before, w.ended_at IS NOT NULL AS ended,
           a.status <> 'active' OR s.status <> 'active' AS suspended
      FROM webhooks w
           JOIN apps a ON a.id = w.app_id
           JOIN stores s ON s.id = w.store_id
           LEFT JOIN installations i ON i.store_id = w.store_id AND i.app_id = w.app_id;

CREATE TYPE waiting_event AS (
    store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer, actor text,
    changes text, data text, created_at timestamptz);

-- The next events of these buckets, none of one that another routes now, and then who listens in their stores. The buckets are
-- this session's until it takes others or gives them back. Where nobody listens, data is left out.
DROP FUNCTION take_events(smallint[], integer);
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

DROP TABLE buckets;
