-- Over all stores: the router routes the events of many stores in one call.
-- Adds deliveries to their lanes and marks the events as routed, store by store. With an owner it also leases the lanes that
-- were idle, and returns those. in_lanes names each lane of in_deliveries once; a delivery is blocked if an earlier one of the
-- same call has its ordering key.
-- Each event is routed exactly once: the call fails, and changes nothing, unless in_holder still has the leases of all buckets
-- under in_token and each event is still unrouted. The leases end with the call.
-- A lane of a managed subscription is leased only to an owner that begins with managed-: workers of 0.3.0, which have other
-- names, cannot sign for it.
CREATE FUNCTION route_events(
    in_day date, in_holder text, in_token bigint, in_owner text, in_takeover interval, in_lease interval, in_events json,
    in_lanes json, in_deliveries json
) RETURNS TABLE (store_id bigint, webhook_id bigint, epoch bigint, next_sequence bigint, waiting bigint, owner text,
                 breaker text, probes integer, failures integer, hold_until timestamptz, window_at timestamptz,
                 window_total integer, window_failed integer, failing_since timestamptz, failing_event_sent boolean,
                 last_success_at timestamptz, last_attempt_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    moment      timestamptz;
    lease_end   timestamptz;
    takeover_at timestamptz;
    idle        bigint[];    -- the lanes to lease
    held        smallint[];  -- the buckets
    in_store_id bigint;
    events      text[];
    lanes       json;
    deliveries  json;
    is_leased   boolean;
    updated     bigint;
    routed      bigint := 0;
BEGIN
    -- Locks the leases until the commit; a router that takes them over afterwards sees these events as routed.
    WITH ended AS (
        UPDATE routing_leases l SET holder = '', until = clock_timestamp()
         WHERE l.holder = in_holder AND l.token = in_token RETURNING l.bucket)
    SELECT coalesce(array_agg(t.bucket), '{}') INTO held FROM ended t;
    IF (SELECT true FROM json_to_recordset(in_events) AS t (store_id bigint)
         WHERE NOT t.store_id % 64 = ANY (held) LIMIT 1) THEN
        RAISE EXCEPTION 'another router has taken over the lease' USING ERRCODE = 'serialization_failure';
    END IF;
    -- Every function locks lanes in this order: by store, then by subscription.
    FOR in_store_id, events, lanes, deliveries IN
        SELECT store_id, e.ids, l.rows, d.rows
          FROM (SELECT t.store_id, array_agg(t.id) AS ids FROM json_to_recordset(in_events) AS t (store_id bigint, id text)
                 GROUP BY t.store_id) e
               LEFT JOIN (SELECT (t.row ->> 'store_id')::bigint AS store_id, json_agg(t.row) AS rows
                            FROM json_array_elements(in_lanes) AS t (row) GROUP BY 1) l USING (store_id)
               LEFT JOIN (SELECT (t.row ->> 'store_id')::bigint AS store_id, json_agg(t.row) AS rows
                            FROM json_array_elements(in_deliveries) AS t (row) GROUP BY 1) d USING (store_id)
         ORDER BY store_id
    LOOP
        IF lanes IS NOT NULL THEN
            SELECT coalesce(array_agg(t.webhook_id) FILTER (
                       WHERE t.sendable AND t.owner = '' AND t.waiting = 0 AND t.due_at IS NULL AND t.breaker = 'closed'
                         AND (t.hold_until IS NULL OR t.hold_until <= clock_timestamp())), '{}')
              INTO idle
              FROM (SELECT l.webhook_id, l.owner, l.waiting, l.due_at, l.breaker, l.hold_until,
                           in_owner LIKE 'managed-%' OR in_owner <> '' AND NOT EXISTS (
                           SELECT FROM webhooks w
                            WHERE w.store_id = in_store_id AND w.id = l.webhook_id AND w.managed_by IS NOT NULL) AS sendable
                      FROM json_to_recordset(lanes) AS u (webhook_id bigint)
                           JOIN lanes l ON l.store_id = in_store_id AND l.webhook_id = u.webhook_id
                     ORDER BY l.webhook_id FOR UPDATE OF l) t;
            moment := clock_timestamp();
            lease_end := moment + in_lease;
            takeover_at := moment + least(in_takeover, in_lease);
            INSERT INTO pending_deliveries (store_id, webhook_id, sequence, event_id, event_day, event_type, resource_type,
                                            resource_id, resource_version, ordered_by, due_at, created_at)
            SELECT in_store_id, l.webhook_id, l.next_sequence + d.sequence_offset, d.event_id, in_day, d.event_type,
                   d.resource_type, d.resource_id, d.resource_version, d.ordered_by,
                   CASE WHEN d.ordered_by IS NOT NULL AND (d.blocked OR (
                             SELECT p.sequence FROM pending_deliveries p
                              WHERE p.store_id = in_store_id AND p.webhook_id = d.webhook_id AND p.ordered_by = d.ordered_by
                              ORDER BY p.ordered_by, p.sequence LIMIT 1) IS NOT NULL)
                        THEN 'infinity' ELSE moment END,
                   moment
              FROM json_to_recordset(deliveries) AS d (
                       webhook_id bigint, sequence_offset integer, event_id text, event_type text,
                       resource_type text, resource_id bigint, resource_version integer, ordered_by text, blocked boolean)
                   JOIN lanes l ON l.store_id = in_store_id AND l.webhook_id = d.webhook_id;
            FOR is_leased, webhook_id, epoch, next_sequence, waiting, owner, breaker, probes, failures, hold_until, window_at,
                window_total, window_failed, failing_since, failing_event_sent, last_success_at, last_attempt_at IN
                UPDATE lanes l
                   SET next_sequence = l.next_sequence + d.deliveries, waiting = l.waiting + d.deliveries,
                       owner = CASE WHEN d.leased THEN in_owner ELSE l.owner END,
                       epoch = l.epoch + d.leased::integer,
                       lease_until = CASE WHEN d.leased THEN lease_end ELSE l.lease_until END,
                       due_at = CASE WHEN d.leased THEN takeover_at
                                     WHEN l.owner <> '' OR NOT d.sends THEN l.due_at
                                     ELSE greatest(least(l.due_at, moment), l.hold_until) END
                  FROM (SELECT t.*, t.sends AND t.webhook_id = ANY (idle) AS leased
                          FROM json_to_recordset(lanes) AS t (webhook_id bigint, deliveries integer, sends boolean)) d
                 WHERE l.store_id = in_store_id AND l.webhook_id = d.webhook_id
                RETURNING d.leased, l.webhook_id, l.epoch, l.next_sequence, l.waiting, l.owner, l.breaker, l.probes, l.failures,
                          l.hold_until, l.window_at, l.window_total, l.window_failed, l.failing_since, l.failing_event_sent,
                          l.last_success_at, l.last_attempt_at
            LOOP
                IF is_leased THEN
                    store_id := in_store_id;
                    RETURN NEXT;
                END IF;
            END LOOP;
        END IF;
        UPDATE events e SET routed_on = in_day
         WHERE e.store_id = in_store_id AND e.id = ANY (events) AND e.routed_on = 'infinity';
        GET DIAGNOSTICS updated = ROW_COUNT;
        routed := routed + updated;
    END LOOP;
    IF routed <> json_array_length(in_events) THEN
        RAISE EXCEPTION 'some of the events are already routed' USING ERRCODE = 'serialization_failure';
    END IF;
END $$;
