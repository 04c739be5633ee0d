-- Over all stores: a worker leases the lanes that are due, whichever store they belong to.
-- Leases up to in_limit lanes, bucket by bucket in the given order.
-- A lane of a managed subscription is leased only to an owner that begins with managed-: workers of 0.3.0, which have other
-- names, cannot sign for it.
CREATE FUNCTION lease_lanes(in_buckets smallint[], in_owner text, in_limit integer, in_takeover interval, in_lease interval)
RETURNS TABLE (store_id bigint, webhook_id bigint, epoch bigint, next_sequence bigint, waiting bigint, owner text,
               breaker text, probes integer, failures integer, hold_until timestamptz, window_at timestamptz,
               window_total integer, window_failed integer, failing_since timestamptz, failing_event_sent boolean,
               last_success_at timestamptz, last_attempt_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    -- A lease that a crash of the database undoes is taken again.
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT d.store_id, d.webhook_id
          FROM unnest(in_buckets) WITH ORDINALITY AS b (bucket, n) CROSS JOIN LATERAL (
               SELECT x.store_id, x.webhook_id FROM lanes x WHERE x.store_id % 64 = b.bucket AND x.due_at <= moment
                   AND NOT store_has_left(x.store_id)
                   AND (in_owner LIKE 'managed-%' OR NOT EXISTS (
                        SELECT FROM webhooks w WHERE w.store_id = x.store_id AND w.id = x.webhook_id AND w.managed_by IS NOT NULL))
                ORDER BY x.due_at LIMIT in_limit FOR UPDATE SKIP LOCKED) d
         LIMIT in_limit)
    UPDATE lanes l
       SET owner = in_owner, epoch = l.epoch + 1, lease_until = moment + in_lease,
           due_at = moment + least(in_takeover, in_lease)
      FROM due WHERE l.store_id = due.store_id AND l.webhook_id = due.webhook_id
    RETURNING l.store_id, l.webhook_id, l.epoch, l.next_sequence, l.waiting, l.owner, l.breaker, l.probes, l.failures,
              l.hold_until, l.window_at, l.window_total, l.window_failed, l.failing_since, l.failing_event_sent,
              l.last_success_at, l.last_attempt_at;
END $$;
