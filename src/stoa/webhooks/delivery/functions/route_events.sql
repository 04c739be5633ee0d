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
