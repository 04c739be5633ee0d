-- Over all stores: a worker leases the lanes that are due, whichever store they belong to.
-- Looks for due lanes on the nodes that can be reached, without locks, then leases them store by store.
-- A lane of a managed subscription is leased only to an owner that begins with managed-: workers of 0.3.0, which have other
-- names, cannot sign for it.
CREATE FUNCTION lease_lanes(in_buckets smallint[], in_owner text, in_limit integer, in_takeover interval, in_lease interval)
RETURNS TABLE (store_id bigint, webhook_id bigint, epoch bigint, next_sequence bigint, waiting bigint, owner text,
               breaker text, probes integer, failures integer, hold_until timestamptz, window_at timestamptz,
               window_total integer, window_failed integer, failing_since timestamptz, failing_event_sent boolean,
               last_success_at timestamptz, last_attempt_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    moment      timestamptz := clock_timestamp();
    lease_end   timestamptz := moment + in_lease;
    takeover_at timestamptz := moment + least(in_takeover, in_lease);
    in_store_id bigint;
    webhook     bigint;
    stores      bigint[];  -- that have lanes to lease
    due_stores  bigint[] := '{}';
    due_lanes   bigint[] := '{}';
    due         bigint[];
    locked      bigint[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    BEGIN
        stores := ARRAY(SELECT DISTINCT o.store_id
                          FROM (SELECT x.store_id FROM lanes x
                                 WHERE x.store_id % 64 = ANY (in_buckets) AND x.due_at <= moment LIMIT 20000) o);
    EXCEPTION WHEN connection_exception OR admin_shutdown OR crash_shutdown OR cannot_connect_now OR internal_error OR io_error THEN
        stores := reached_stores('lanes', format('store_id %% 64 = ANY (%L) AND due_at <= %L', in_buckets, moment));
    END;
    IF stores = '{}' THEN
        RETURN;
    END IF;
    -- Grouped here, because Citus would let any node group the rows, also one that is away.
    FOR in_store_id, webhook IN
        SELECT x.store_id, x.webhook_id FROM lanes x WHERE x.store_id = ANY (stores) AND x.due_at <= moment
         ORDER BY x.due_at LIMIT in_limit
    LOOP
        due_stores := due_stores || in_store_id;
        due_lanes := due_lanes || webhook;
    END LOOP;
    FOR in_store_id, due IN
        SELECT d.store_id, array_agg(d.webhook_id) FROM unnest(due_stores, due_lanes) AS d (store_id, webhook_id)
         GROUP BY d.store_id ORDER BY d.store_id
    LOOP
        locked := ARRAY(SELECT l.webhook_id FROM lanes l
                         WHERE l.store_id = in_store_id AND l.webhook_id = ANY (due) AND l.due_at <= moment
                           AND (in_owner LIKE 'managed-%' OR NOT EXISTS (
                                SELECT FROM webhooks w
                                 WHERE w.store_id = in_store_id AND w.id = l.webhook_id AND w.managed_by IS NOT NULL))
                           FOR UPDATE SKIP LOCKED);
        CONTINUE WHEN locked = '{}';
        RETURN QUERY
        UPDATE lanes l
           SET owner = in_owner, epoch = l.epoch + 1, lease_until = lease_end, due_at = takeover_at
         WHERE l.store_id = in_store_id AND l.webhook_id = ANY (locked)
        RETURNING l.store_id, l.webhook_id, l.epoch, l.next_sequence, l.waiting, l.owner, l.breaker, l.probes, l.failures,
                  l.hold_until, l.window_at, l.window_total, l.window_failed, l.failing_since, l.failing_event_sent,
                  l.last_success_at, l.last_attempt_at;
    END LOOP;
END $$;
