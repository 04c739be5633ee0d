-- Over all stores: a worker settles the deliveries of all its lanes in one statement.
-- Stores the outcomes of deliveries and the state of their lanes; `lane` numbers the lanes of this call. A finished delivery
-- counts whichever worker reports it, everything else only while the worker leases the lane. Returns the lanes that it still
-- leased, with their state: 'leased', 'released', or 'due' (released, and more deliveries are due now).
-- A delivery that is due since minus infinity is about a person who was erased meanwhile: no response to it is kept.
CREATE FUNCTION settle_deliveries(in_owner text, in_lease interval, in_takeover interval, in_lanes json, in_results json)
RETURNS TABLE (lane integer, state text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    moment    timestamptz;
    leased    boolean[] := '{}';  -- by lane; null: the lane no longer exists
    finished  integer[] := '{}';  -- by lane: the number of finished deliveries
    recovered boolean := false;
    -- One entry for each finished delivery.
    f_lane integer[];
    f_store bigint[];
    f_webhook bigint[];
    f_ordered_by text[];
    n integer;
    is_leased boolean;
    has_recovered boolean;
BEGIN
    -- An outcome that a crash of the database undoes is only sent again.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Lock all lanes first; every function locks lanes in this order.
    FOR n, is_leased, has_recovered IN
        SELECT t.lane, l.owner = in_owner AND l.epoch = t.epoch, t.recovered
          FROM json_to_recordset(in_lanes) AS t (
                   lane integer, store_id bigint, webhook_id bigint, epoch bigint, recovered boolean)
               JOIN lanes l ON l.store_id = t.store_id AND l.webhook_id = t.webhook_id
         ORDER BY l.store_id, l.webhook_id FOR UPDATE OF l
    LOOP
        leased[n] := is_leased;
        recovered := recovered OR has_recovered;
    END LOOP;
    moment := clock_timestamp();
    WITH result AS MATERIALIZED (
        SELECT r.*
          FROM json_to_recordset(in_results) AS r (
               lane integer, store_id bigint, webhook_id bigint, sequence bigint, status text, due_at timestamptz,
               attempt_count integer, attempts text)
         WHERE leased[r.lane] IS NOT NULL),
    retried AS (
        UPDATE pending_deliveries p
           SET due_at = r.due_at, attempt_count = r.attempt_count,
               attempts = CASE WHEN p.due_at = '-infinity' THEN list_cleared(r.attempts, '{response_body}', 'null')
                               ELSE r.attempts END
          FROM result r
         WHERE r.status = 'retrying' AND leased[r.lane]
           AND p.store_id = r.store_id AND p.webhook_id = r.webhook_id AND p.sequence = r.sequence),
    done AS (
        DELETE FROM pending_deliveries p USING result r
         WHERE r.status <> 'retrying'
           AND p.store_id = r.store_id AND p.webhook_id = r.webhook_id AND p.sequence = r.sequence
        RETURNING r.lane, r.status, r.attempt_count, r.attempts, p.store_id, p.webhook_id, p.sequence, p.event_id,
                  p.event_day, p.event_type, p.resource_type, p.resource_id, p.resource_version, p.ordered_by,
                  p.redelivery_of, p.created_at, p.due_at = '-infinity' AS erased),
    stored AS (
        INSERT INTO deliveries (store_id, webhook_id, sequence, finished_on, event_id, event_day, event_type,
                                resource_type, resource_id, resource_version, redelivery_of, status, attempt_count,
                                attempts, created_at, finished_at)
        SELECT d.store_id, d.webhook_id, d.sequence, moment::date, d.event_id, d.event_day, d.event_type,
               d.resource_type, d.resource_id, d.resource_version, d.redelivery_of, d.status, d.attempt_count,
               CASE WHEN d.erased THEN list_cleared(d.attempts, '{response_body}', 'null') ELSE d.attempts END,
               d.created_at, moment
          FROM done d)
    SELECT coalesce(array_agg(d.lane), '{}'), array_agg(d.store_id), array_agg(d.webhook_id), array_agg(d.ordered_by)
      INTO f_lane, f_store, f_webhook, f_ordered_by FROM done d;
    FOREACH n IN ARRAY f_lane LOOP
        finished[n] := coalesce(finished[n], 0) + 1;
    END LOOP;
    IF array_remove(f_ordered_by, NULL) <> '{}' THEN
        -- The next delivery of each resource becomes due; one index probe finds each.
        UPDATE pending_deliveries p SET due_at = moment
          FROM (SELECT d.store_id, d.webhook_id,
                       (SELECT q.sequence FROM pending_deliveries q
                         WHERE q.store_id = d.store_id AND q.webhook_id = d.webhook_id AND q.ordered_by = d.ordered_by
                         ORDER BY q.ordered_by, q.sequence LIMIT 1) AS sequence
                  FROM (SELECT DISTINCT u.store_id, u.webhook_id, u.ordered_by
                          FROM unnest(f_store, f_webhook, f_ordered_by) AS u (store_id, webhook_id, ordered_by)
                         WHERE u.ordered_by IS NOT NULL) d) t
         WHERE p.store_id = t.store_id AND p.webhook_id = t.webhook_id AND p.sequence = t.sequence AND p.due_at = 'infinity';
    END IF;
    IF recovered THEN  -- pending retries of a receiver that recovered become due now
        UPDATE pending_deliveries p SET due_at = moment
          FROM json_to_recordset(in_lanes) AS t (lane integer, store_id bigint, webhook_id bigint, recovered boolean)
         WHERE t.recovered AND leased[t.lane] AND p.store_id = t.store_id AND p.webhook_id = t.webhook_id
           AND p.due_at > moment AND p.due_at < 'infinity';
    END IF;
    RETURN QUERY
    WITH reported AS MATERIALIZED (
        SELECT t.*, leased[t.lane] AS leased, coalesce(finished[t.lane], 0) AS finished,
               CASE WHEN t.released AND NOT t.idle THEN (
                    SELECT greatest(p.due_at, p.created_at) FROM pending_deliveries p
                     WHERE p.store_id = t.store_id AND p.webhook_id = t.webhook_id
                     ORDER BY p.store_id, p.webhook_id, p.due_at LIMIT 1) END AS next_at
          FROM json_to_recordset(in_lanes) AS t (
               lane integer, store_id bigint, webhook_id bigint, released boolean, idle boolean, breaker text,
               probes integer, failures integer, hold_until timestamptz, window_at timestamptz, window_total integer,
               window_failed integer, failing_since timestamptz, failing_event_sent boolean, last_success_at timestamptz,
               last_attempt_at timestamptz, succeeded integer, failed integer, attempts integer, failed_attempts integer,
               duration_ms bigint)
         WHERE leased[t.lane] IS NOT NULL),
    counted AS (
        INSERT INTO delivery_hours AS h (store_id, webhook_id, hour, succeeded, failed, attempts, failed_attempts, duration_ms)
        SELECT t.store_id, t.webhook_id, date_trunc('hour', moment), t.succeeded, t.failed, t.attempts, t.failed_attempts,
               t.duration_ms
          FROM reported t WHERE t.attempts > 0
            ON CONFLICT (store_id, webhook_id, hour) DO UPDATE SET
               succeeded = h.succeeded + excluded.succeeded, failed = h.failed + excluded.failed,
               attempts = h.attempts + excluded.attempts, failed_attempts = h.failed_attempts + excluded.failed_attempts,
               duration_ms = h.duration_ms + excluded.duration_ms),
    lost AS (
        UPDATE lanes l SET waiting = l.waiting - t.finished FROM reported t
         WHERE NOT t.leased AND t.finished > 0 AND l.store_id = t.store_id AND l.webhook_id = t.webhook_id),
    settled AS (
        UPDATE lanes l
           SET waiting = l.waiting - t.finished, breaker = t.breaker, probes = t.probes, failures = t.failures,
               hold_until = t.hold_until, window_at = t.window_at, window_total = t.window_total,
               window_failed = t.window_failed, failing_since = t.failing_since,
               failing_event_sent = t.failing_event_sent, last_success_at = t.last_success_at,
               last_attempt_at = t.last_attempt_at,
               owner = CASE WHEN t.released THEN '' ELSE in_owner END,
               lease_until = CASE WHEN t.released THEN NULL ELSE moment + in_lease END,
               due_at = CASE WHEN NOT t.released THEN moment + least(in_takeover, in_lease)
                             WHEN t.breaker = 'open' AND t.next_at IS NOT NULL THEN t.hold_until
                             WHEN t.next_at < 'infinity' THEN greatest(t.next_at, t.hold_until) END
          FROM reported t WHERE t.leased AND l.store_id = t.store_id AND l.webhook_id = t.webhook_id
        RETURNING t.lane, CASE WHEN NOT t.released THEN 'leased'
                               WHEN l.due_at <= clock_timestamp() THEN 'due' ELSE 'released' END AS state)
    SELECT s.lane, s.state FROM settled s;
END $$;
