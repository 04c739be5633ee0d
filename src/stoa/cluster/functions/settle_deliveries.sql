-- Over all stores: a worker settles the deliveries of all its lanes in one call.
-- Stores the outcomes of deliveries and the state of their lanes, store by store; `lane` numbers the lanes of this call. A
-- finished delivery counts whichever worker reports it, everything else only while the worker leases the lane. Returns the lanes
-- that it still leased, with their state: 'leased', 'released', or 'due' (released, and more deliveries are due now).
-- A delivery that is due since minus infinity is about a person who was erased meanwhile: no response to it is kept.
CREATE FUNCTION settle_deliveries(in_owner text, in_lease interval, in_takeover interval, in_lanes json, in_results json)
RETURNS TABLE (lane integer, state text)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    moment      timestamptz;
    lease_end   timestamptz;
    takeover_at timestamptz;
    hour_start  timestamptz;
    in_store_id bigint;
    lanes       json;
    results     json;
    done        json;            -- the finished deliveries of the store
    leased      boolean[] := '{}';  -- by lane; null: the lane no longer exists
    finished    integer[] := '{}';  -- by lane: the number of finished deliveries
    recovered   boolean;
    n           integer;
    is_leased   boolean;
    has_recovered boolean;
    is_released boolean;
    next_due    timestamptz;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Every function locks lanes in this order: by store, then by subscription.
    FOR in_store_id, lanes, results IN
        SELECT store_id, l.rows, coalesce(r.rows, '[]')
          FROM (SELECT (t.row ->> 'store_id')::bigint AS store_id, json_agg(t.row) AS rows
                  FROM json_array_elements(in_lanes) AS t (row) GROUP BY 1) l
               LEFT JOIN (SELECT (t.row ->> 'store_id')::bigint AS store_id, json_agg(t.row) AS rows
                            FROM json_array_elements(in_results) AS t (row) GROUP BY 1) r USING (store_id)
         ORDER BY store_id
    LOOP
        recovered := false;
        FOR n, is_leased, has_recovered IN
            SELECT t.lane, l.owner = in_owner AND l.epoch = t.epoch, t.recovered
              FROM json_to_recordset(lanes) AS t (lane integer, webhook_id bigint, epoch bigint, recovered boolean)
                   JOIN lanes l ON l.store_id = in_store_id AND l.webhook_id = t.webhook_id
             ORDER BY l.webhook_id FOR UPDATE OF l
        LOOP
            leased[n] := is_leased;
            recovered := recovered OR has_recovered;
        END LOOP;
        moment := clock_timestamp();
        lease_end := moment + in_lease;
        takeover_at := moment + least(in_takeover, in_lease);
        hour_start := date_trunc('hour', moment);
        UPDATE pending_deliveries p
           SET due_at = r.due_at, attempt_count = r.attempt_count,
               attempts = CASE WHEN p.due_at = '-infinity' THEN list_cleared(r.attempts, '{response_body}', 'null')
                               ELSE r.attempts END
          FROM json_to_recordset(results) AS r (
               lane integer, webhook_id bigint, sequence bigint, status text, due_at timestamptz, attempt_count integer,
               attempts text)
         WHERE r.status = 'retrying' AND leased[r.lane]
           AND p.store_id = in_store_id AND p.webhook_id = r.webhook_id AND p.sequence = r.sequence;
        WITH deleted AS (
            DELETE FROM pending_deliveries p
             USING json_to_recordset(results) AS r (
                   lane integer, webhook_id bigint, sequence bigint, status text, attempt_count integer, attempts text)
             WHERE r.status <> 'retrying' AND leased[r.lane] IS NOT NULL
               AND p.store_id = in_store_id AND p.webhook_id = r.webhook_id AND p.sequence = r.sequence
            RETURNING r.lane, r.status, r.attempt_count, r.attempts, p.webhook_id, p.sequence, p.event_id, p.event_day,
                      p.event_type, p.resource_type, p.resource_id, p.resource_version, p.ordered_by, p.redelivery_of,
                      p.created_at, p.due_at = '-infinity' AS erased)
        SELECT json_agg(d) INTO done FROM deleted d;
        IF done IS NOT NULL THEN
            INSERT INTO deliveries (store_id, webhook_id, sequence, finished_on, event_id, event_day, event_type,
                                    resource_type, resource_id, resource_version, redelivery_of, status, attempt_count,
                                    attempts, created_at, finished_at)
            SELECT in_store_id, d.webhook_id, d.sequence, moment::date, d.event_id, d.event_day, d.event_type,
                   d.resource_type, d.resource_id, d.resource_version, d.redelivery_of, d.status, d.attempt_count,
                   CASE WHEN d.erased THEN list_cleared(d.attempts, '{response_body}', 'null') ELSE d.attempts END,
                   d.created_at, moment
              FROM json_to_recordset(done) AS d (
                   webhook_id bigint, sequence bigint, event_id text, event_day date, event_type text, resource_type text,
                   resource_id bigint, resource_version integer, redelivery_of bigint, status text, attempt_count integer,
                   attempts text, created_at timestamptz, erased boolean);
            FOR n IN SELECT d.lane FROM json_to_recordset(done) AS d (lane integer) LOOP
                finished[n] := coalesce(finished[n], 0) + 1;
            END LOOP;
            -- The next delivery of each resource becomes due; one index probe finds each.
            UPDATE pending_deliveries p SET due_at = moment
              FROM (SELECT d.webhook_id,
                           (SELECT q.sequence FROM pending_deliveries q
                             WHERE q.store_id = in_store_id AND q.webhook_id = d.webhook_id AND q.ordered_by = d.ordered_by
                             ORDER BY q.ordered_by, q.sequence LIMIT 1) AS sequence
                      FROM (SELECT DISTINCT u.webhook_id, u.ordered_by
                              FROM json_to_recordset(done) AS u (webhook_id bigint, ordered_by text)
                             WHERE u.ordered_by IS NOT NULL) d) t
             WHERE p.store_id = in_store_id AND p.webhook_id = t.webhook_id AND p.sequence = t.sequence
               AND p.due_at = 'infinity';
        END IF;
        IF recovered THEN  -- pending retries of a receiver that recovered become due now
            UPDATE pending_deliveries p SET due_at = moment
              FROM json_to_recordset(lanes) AS t (lane integer, webhook_id bigint, recovered boolean)
             WHERE t.recovered AND leased[t.lane] AND p.store_id = in_store_id AND p.webhook_id = t.webhook_id
               AND p.due_at > moment AND p.due_at < 'infinity';
        END IF;
        INSERT INTO delivery_hours AS h (store_id, webhook_id, hour, succeeded, failed, attempts, failed_attempts, duration_ms)
        SELECT in_store_id, t.webhook_id, hour_start, t.succeeded, t.failed, t.attempts, t.failed_attempts, t.duration_ms
          FROM json_to_recordset(lanes) AS t (
               lane integer, webhook_id bigint, succeeded integer, failed integer, attempts integer, failed_attempts integer,
               duration_ms bigint)
         WHERE t.attempts > 0 AND leased[t.lane] IS NOT NULL
            ON CONFLICT (store_id, webhook_id, hour) DO UPDATE SET
               succeeded = h.succeeded + excluded.succeeded, failed = h.failed + excluded.failed,
               attempts = h.attempts + excluded.attempts, failed_attempts = h.failed_attempts + excluded.failed_attempts,
               duration_ms = h.duration_ms + excluded.duration_ms;
        UPDATE lanes l SET waiting = l.waiting - coalesce(finished[t.lane], 0)
          FROM json_to_recordset(lanes) AS t (lane integer, webhook_id bigint)
         WHERE NOT leased[t.lane] AND finished[t.lane] > 0 AND l.store_id = in_store_id AND l.webhook_id = t.webhook_id;
        FOR n, is_released, next_due IN
            UPDATE lanes l
               SET waiting = l.waiting - coalesce(finished[t.lane], 0), breaker = t.breaker, probes = t.probes,
                   failures = t.failures, hold_until = t.hold_until, window_at = t.window_at, window_total = t.window_total,
                   window_failed = t.window_failed, failing_since = t.failing_since,
                   failing_event_sent = t.failing_event_sent, last_success_at = t.last_success_at,
                   last_attempt_at = t.last_attempt_at,
                   owner = CASE WHEN t.released THEN '' ELSE in_owner END,
                   lease_until = CASE WHEN t.released THEN NULL ELSE lease_end END,
                   due_at = CASE WHEN NOT t.released THEN takeover_at
                                 WHEN t.breaker = 'open' AND t.next_at IS NOT NULL THEN t.hold_until
                                 WHEN t.next_at < 'infinity' THEN greatest(t.next_at, t.hold_until) END
              FROM (SELECT u.*, CASE WHEN u.released AND NOT u.idle THEN (
                           SELECT greatest(p.due_at, p.created_at) FROM pending_deliveries p
                            WHERE p.store_id = in_store_id AND p.webhook_id = u.webhook_id
                            ORDER BY p.due_at LIMIT 1) END AS next_at
                      FROM json_to_recordset(lanes) AS u (
                           lane integer, webhook_id bigint, released boolean, idle boolean, breaker text, probes integer,
                           failures integer, hold_until timestamptz, window_at timestamptz, window_total integer,
                           window_failed integer, failing_since timestamptz, failing_event_sent boolean,
                           last_success_at timestamptz, last_attempt_at timestamptz)) t
             WHERE leased[t.lane] AND l.store_id = in_store_id AND l.webhook_id = t.webhook_id
            RETURNING t.lane, t.released, l.due_at
        LOOP
            lane := n;
            state := CASE WHEN NOT is_released THEN 'leased'
                          WHEN next_due <= clock_timestamp() THEN 'due' ELSE 'released' END;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;
