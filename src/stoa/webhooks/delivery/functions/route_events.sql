-- Over all stores: the router routes the events of many stores in one statement.
-- Adds deliveries to their lanes and marks the events as routed. With an owner it also leases the lanes that were idle, and
-- returns those. in_lanes names each lane of in_deliveries once; a delivery is blocked if an earlier one of the same call has its
-- ordering key.
-- Each event is routed exactly once: the call fails, and changes nothing, unless in_holder still has the leases of all buckets
-- under in_token and each event is still unrouted, and was not erased after it was read (erased says whether it was before; its
-- changes have a space). The leases end with the call. Routing numbers the deliveries of a feed, so no
-- store may move while it is routed.
-- A lane of a managed subscription is leased only to an owner that begins with managed-: workers of 0.3.0, which have other
-- names, cannot sign for it.
CREATE FUNCTION route_events(
    in_day date, in_holder text, in_token bigint, in_owner text, in_takeover interval, in_lease interval, in_events json,
    in_lanes json, in_deliveries json
) RETURNS TABLE (store_id bigint, webhook_id bigint, epoch bigint, next_sequence bigint, waiting bigint, owner text,
                 breaker text, probes integer, failures integer, hold_until timestamptz, window_at timestamptz,
                 window_total integer, window_failed integer, failing_since timestamptz, failing_event_sent boolean,
                 last_success_at timestamptz, last_attempt_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz;
    idle   bigint[];  -- the lanes to lease
    held   smallint[];  -- the leased buckets
    routed bigint;
BEGIN
    IF EXISTS (SELECT FROM shards) THEN
        PERFORM enter_store(t.store_id)
           FROM (SELECT DISTINCT e.store_id FROM json_to_recordset(in_events) AS e (store_id bigint) ORDER BY e.store_id) t;
    END IF;
    -- Locks the leases until the commit; a router that takes them over afterwards sees these events as routed.
    WITH ended AS (
        UPDATE routing_leases l SET holder = '', until = clock_timestamp()
         WHERE l.holder = in_holder AND l.token = in_token RETURNING l.bucket)
    SELECT coalesce(array_agg(t.bucket), '{}') INTO held FROM ended t;
    IF (SELECT true FROM json_to_recordset(in_events) AS t (store_id bigint)
         WHERE NOT t.store_id % 64 = ANY (held) LIMIT 1) THEN
        RAISE EXCEPTION 'another router has taken over the lease' USING ERRCODE = 'serialization_failure';
    END IF;
    IF json_array_length(in_lanes) > 0 THEN
        -- Every function locks lanes in this order.
        SELECT coalesce(array_agg(t.webhook_id) FILTER (
                   WHERE t.sendable AND t.owner = '' AND t.waiting = 0 AND t.due_at IS NULL AND t.breaker = 'closed'
                     AND (t.hold_until IS NULL OR t.hold_until <= clock_timestamp())), '{}')
          INTO idle
          FROM (SELECT l.webhook_id, l.owner, l.waiting, l.due_at, l.breaker, l.hold_until,
                       in_owner LIKE 'managed-%' OR in_owner <> '' AND NOT EXISTS (
                       SELECT FROM webhooks w
                        WHERE w.store_id = l.store_id AND w.id = l.webhook_id AND w.managed_by IS NOT NULL) AS sendable
                  FROM json_to_recordset(in_lanes) AS u (store_id bigint, webhook_id bigint)
                       JOIN lanes l ON l.store_id = u.store_id AND l.webhook_id = u.webhook_id
                 ORDER BY l.store_id, l.webhook_id FOR UPDATE OF l) t;
        moment := clock_timestamp();
        INSERT INTO pending_deliveries (store_id, webhook_id, sequence, event_id, event_day, event_type, resource_type,
                                        resource_id, resource_version, ordered_by, due_at, created_at)
        SELECT l.store_id, l.webhook_id, l.next_sequence + d.sequence_offset, d.event_id, in_day, d.event_type,
               d.resource_type, d.resource_id, d.resource_version, d.ordered_by,
               CASE WHEN d.ordered_by IS NOT NULL AND (d.blocked OR (
                         SELECT p.sequence FROM pending_deliveries p
                          WHERE p.store_id = d.store_id AND p.webhook_id = d.webhook_id AND p.ordered_by = d.ordered_by
                          ORDER BY p.ordered_by, p.sequence LIMIT 1) IS NOT NULL)
                    THEN 'infinity' ELSE moment END,
               moment
          FROM json_to_recordset(in_deliveries) AS d (
                   store_id bigint, webhook_id bigint, sequence_offset integer, event_id text, event_type text,
                   resource_type text, resource_id bigint, resource_version integer, ordered_by text, blocked boolean)
               JOIN lanes l ON l.store_id = d.store_id AND l.webhook_id = d.webhook_id;
        RETURN QUERY
        WITH filled AS (
            UPDATE lanes l
               SET next_sequence = l.next_sequence + d.deliveries, waiting = l.waiting + d.deliveries,
                   owner = CASE WHEN d.leased THEN in_owner ELSE l.owner END,
                   epoch = l.epoch + d.leased::integer,
                   lease_until = CASE WHEN d.leased THEN moment + in_lease ELSE l.lease_until END,
                   due_at = CASE WHEN d.leased THEN moment + least(in_takeover, in_lease)
                                 WHEN l.owner <> '' OR NOT d.sends THEN l.due_at
                                 ELSE greatest(least(l.due_at, moment), l.hold_until) END
              FROM (SELECT t.*, t.sends AND t.webhook_id = ANY (idle) AS leased
                      FROM json_to_recordset(in_lanes) AS t (
                           store_id bigint, webhook_id bigint, deliveries integer, sends boolean)) d
             WHERE l.store_id = d.store_id AND l.webhook_id = d.webhook_id
            RETURNING d.leased, l.*)
        SELECT f.store_id, f.webhook_id, f.epoch, f.next_sequence, f.waiting, f.owner, f.breaker, f.probes, f.failures,
               f.hold_until, f.window_at, f.window_total, f.window_failed, f.failing_since, f.failing_event_sent,
               f.last_success_at, f.last_attempt_at
          FROM filled f WHERE f.leased;
    END IF;
    UPDATE events e SET routed_on = in_day FROM json_to_recordset(in_events) AS t (store_id bigint, id text, erased boolean)
     WHERE e.store_id = t.store_id AND e.id = t.id AND e.routed_on = 'infinity'
       AND (t.erased OR e.changes <> '{ }') IS NOT FALSE;  -- workers of 0.3.0 do not say whether it was erased
    GET DIAGNOSTICS routed = ROW_COUNT;
    IF routed <> json_array_length(in_events) THEN
        RAISE EXCEPTION 'some of the events were routed or erased meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
