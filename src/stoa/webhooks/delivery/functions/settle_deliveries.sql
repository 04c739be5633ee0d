-- Records what became of deliveries (r_) and how their lanes (l_) stand; r_lane counts lanes of this call, from 1. A
-- delivery that is done counts whoever reports it; all else only if the lane is still the reporter's, which the answer
-- tells for each lane: 0 it is not, 1 it is or was let go, 2 it was let go and has more to do at once. A lane that is let go is
-- due when its next delivery is.
CREATE FUNCTION settle_deliveries(
    in_owner text, in_lease interval, in_beat interval,
    l_bucket smallint[], l_webhook bigint[], l_epoch bigint[], l_release boolean[], l_idle boolean[], l_drain boolean[],
    l_breaker text[], l_probes integer[], l_failures integer[], l_hold_until timestamptz[], l_window_at timestamptz[],
    l_window_total integer[], l_window_failed integer[], l_failing_since timestamptz[], l_told boolean[],
    l_last_success_at timestamptz[], l_last_attempt_at timestamptz[], l_succeeded integer[], l_failed integer[],
    l_attempts integer[], l_failed_attempts integer[], l_duration_ms bigint[],
    r_lane integer[], r_sequence bigint[], r_status text[], r_due_at timestamptz[], r_count integer[], r_attempts text[]
) RETURNS integer[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz;
    there integer[];  -- the lanes that are there
    stores bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(l_bucket)]);
    held   boolean[] := array_fill(false, ARRAY[cardinality(l_bucket)]);
    gone   integer[] := array_fill(0, ARRAY[cardinality(l_bucket)]);
    states integer[] := array_fill(0, ARRAY[cardinality(l_bucket)]);
    a_store bigint[];
    a_held  boolean[];
    d_lane  integer[];  -- of each delivery that is done: its lane, and its resource where order is kept
    d_key   text[];
    s_lane  integer[];
    s_state integer[];
    n       integer;
BEGIN
    -- All lanes first, in the order in which everybody takes them.
    WITH mine AS MATERIALIZED (
        SELECT t.n, l.store_id, l.owner = in_owner AND l.epoch = t.epoch AS held
          FROM unnest(l_bucket, l_webhook, l_epoch) WITH ORDINALITY AS t (bucket, webhook_id, epoch, n)
               JOIN lanes l ON l.bucket = t.bucket AND l.webhook_id = t.webhook_id
         ORDER BY t.bucket, t.webhook_id FOR UPDATE OF l)
    SELECT array_agg(m.n), array_agg(m.store_id), array_agg(m.held) INTO there, a_store, a_held FROM mine m;
    FOR i IN 1..coalesce(cardinality(there), 0) LOOP
        stores[there[i]] := a_store[i];
        held[there[i]] := a_held[i];
    END LOOP;
    moment := clock_timestamp();
    WITH result AS MATERIALIZED (
        SELECT r.lane, l_bucket[r.lane] AS bucket, l_webhook[r.lane] AS webhook_id, r.sequence, r.status, r.count, r.attempts
          FROM unnest(r_lane, r_sequence, r_status, r_count, r_attempts) AS r (lane, sequence, status, count, attempts)
         WHERE r.status <> 'retrying' AND stores[r.lane] IS NOT NULL),
    done AS (
        DELETE FROM pending_deliveries p USING result r
         WHERE p.bucket = r.bucket AND p.webhook_id = r.webhook_id AND p.sequence = r.sequence
        RETURNING r.lane, r.status, r.count, r.attempts, p.store_id, p.webhook_id, p.sequence, p.event_id, p.event_day,
                  p.event_type, p.resource_type, p.resource_id, p.resource_version, p.ordered_by, p.redelivery_of, p.created_at),
    kept AS (
        INSERT INTO deliveries (store_id, webhook_id, sequence, finished_on, event_id, event_day, event_type,
                                resource_type, resource_id, resource_version, redelivery_of, status, attempt_count,
                                attempts, created_at, finished_at)
        SELECT d.store_id, d.webhook_id, d.sequence, moment::date, d.event_id, d.event_day, d.event_type,
               d.resource_type, d.resource_id, d.resource_version, d.redelivery_of, d.status, d.count, d.attempts,
               d.created_at, moment
          FROM done d)
    SELECT coalesce(array_agg(d.lane), '{}'), array_agg(d.ordered_by) INTO d_lane, d_key FROM done d;
    FOREACH n IN ARRAY d_lane LOOP
        gone[n] := gone[n] + 1;
    END LOOP;
    IF array_remove(d_key, NULL) <> '{}' THEN
        -- The first that waits of each resource, found by one probe of the index each.
        UPDATE pending_deliveries p SET due_at = moment
          FROM (SELECT l_bucket[d.lane] AS bucket, l_webhook[d.lane] AS webhook_id,
                       (SELECT q.sequence FROM pending_deliveries q
                         WHERE q.bucket = l_bucket[d.lane] AND q.webhook_id = l_webhook[d.lane] AND q.ordered_by = d.key
                         ORDER BY q.ordered_by, q.sequence LIMIT 1) AS sequence
                  FROM (SELECT DISTINCT u.lane, u.key FROM unnest(d_lane, d_key) AS u (lane, key)
                         WHERE u.key IS NOT NULL) d) t
         WHERE p.bucket = t.bucket AND p.webhook_id = t.webhook_id AND p.sequence = t.sequence AND p.due_at = 'infinity';
    END IF;
    INSERT INTO delivery_hours AS h (store_id, webhook_id, hour, succeeded, failed, attempts, failed_attempts, duration_ms)
    SELECT stores[t.n], t.webhook_id, date_trunc('hour', moment), t.succeeded, t.failed, t.attempts, t.failed_attempts,
           t.duration_ms
      FROM unnest(l_webhook, l_succeeded, l_failed, l_attempts, l_failed_attempts, l_duration_ms) WITH ORDINALITY
           AS t (webhook_id, succeeded, failed, attempts, failed_attempts, duration_ms, n)
     WHERE t.attempts > 0 AND stores[t.n] IS NOT NULL
        ON CONFLICT (store_id, webhook_id, hour) DO UPDATE SET
           succeeded = h.succeeded + excluded.succeeded, failed = h.failed + excluded.failed,
           attempts = h.attempts + excluded.attempts, failed_attempts = h.failed_attempts + excluded.failed_attempts,
           duration_ms = h.duration_ms + excluded.duration_ms;
    IF 'retrying' = ANY (r_status) THEN
        UPDATE pending_deliveries p SET due_at = r.due_at, attempt_count = r.count, attempts = r.attempts
          FROM unnest(r_lane, r_sequence, r_status, r_due_at, r_count, r_attempts)
               AS r (lane, sequence, status, due_at, count, attempts)
         WHERE r.status = 'retrying' AND held[r.lane]
           AND p.bucket = l_bucket[r.lane] AND p.webhook_id = l_webhook[r.lane] AND p.sequence = r.sequence;
    END IF;
    IF true = ANY (l_drain) THEN  -- the receiver is back: what waited for its next try goes now
        UPDATE pending_deliveries p SET due_at = moment
          FROM unnest(l_bucket, l_webhook, l_drain, held) AS t (bucket, webhook_id, drain, held)
         WHERE t.drain AND t.held AND p.bucket = t.bucket AND p.webhook_id = t.webhook_id
           AND p.due_at > moment AND p.due_at < 'infinity';
    END IF;
    IF false = ANY (held) THEN
        UPDATE lanes l SET waiting = l.waiting - t.gone
          FROM unnest(l_bucket, l_webhook, held, gone) AS t (bucket, webhook_id, held, gone)
         WHERE NOT t.held AND t.gone > 0 AND l.bucket = t.bucket AND l.webhook_id = t.webhook_id;
    END IF;
    WITH moved AS (
        UPDATE lanes l
           SET waiting = l.waiting - gone[t.n], breaker = t.breaker, probes = t.probes, failures = t.failures,
               hold_until = t.hold_until, window_at = t.window_at, window_total = t.window_total,
               window_failed = t.window_failed, failing_since = t.failing_since, told = t.told,
               last_success_at = t.last_success_at, last_attempt_at = t.last_attempt_at,
               owner = CASE WHEN t.release THEN '' ELSE in_owner END,
               lease_until = CASE WHEN t.release THEN NULL ELSE moment + in_lease END,
               due_at = CASE WHEN NOT t.release THEN moment + least(in_beat, in_lease)
                             WHEN t.breaker = 'open' AND t.next_at IS NOT NULL THEN t.hold_until
                             ELSE lane_due(t.next_at, t.hold_until) END
          FROM (SELECT u.*, CASE WHEN u.release AND NOT u.idle THEN (
                       SELECT p.due_at FROM pending_deliveries p WHERE p.bucket = u.bucket AND p.webhook_id = u.webhook_id
                        ORDER BY p.bucket, p.webhook_id, p.due_at LIMIT 1) END AS next_at
                  FROM unnest(l_bucket, l_webhook, l_release, l_idle, l_breaker, l_probes, l_failures, l_hold_until,
                              l_window_at, l_window_total, l_window_failed, l_failing_since, l_told, l_last_success_at,
                              l_last_attempt_at) WITH ORDINALITY
                       AS u (bucket, webhook_id, release, idle, breaker, probes, failures, hold_until, window_at,
                             window_total, window_failed, failing_since, told, last_success_at, last_attempt_at, n)
                 WHERE held[u.n]) t
         WHERE l.bucket = t.bucket AND l.webhook_id = t.webhook_id
        RETURNING t.n, CASE WHEN t.release AND l.due_at <= clock_timestamp() THEN 2 ELSE 1 END AS state)
    SELECT coalesce(array_agg(m.n), '{}'), array_agg(m.state) INTO s_lane, s_state FROM moved m;
    FOR i IN 1..cardinality(s_lane) LOOP
        states[s_lane[i]] := s_state[i];
    END LOOP;
    RETURN states;
END $$;
