-- Over all stores: a worker renews all its leases at once.
-- Returns the subscriptions whose lanes the worker still leases. A lane that is locked is renewed with the next heartbeat, so
-- that no heartbeat waits for a lock.
CREATE FUNCTION renew_leases(in_owner text, in_takeover interval, in_lanes json) RETURNS SETOF bigint
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    -- The next heartbeat repeats what a crash of the database undoes.
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    WITH leased AS MATERIALIZED (
        SELECT l.store_id, l.webhook_id, l.epoch
          FROM json_to_recordset(in_lanes) AS t (store_id bigint, webhook_id bigint, epoch bigint)
               JOIN lanes l ON l.store_id = t.store_id AND l.webhook_id = t.webhook_id
         WHERE l.owner = in_owner AND l.epoch = t.epoch AND NOT store_has_left(l.store_id)),
    unlocked AS MATERIALIZED (
        SELECT l.store_id, l.webhook_id
          FROM leased t JOIN lanes l ON l.store_id = t.store_id AND l.webhook_id = t.webhook_id
         WHERE l.owner = in_owner AND l.epoch = t.epoch FOR UPDATE OF l SKIP LOCKED),
    renewed AS (
        UPDATE lanes l SET due_at = least(moment + in_takeover, l.lease_until)
          FROM unlocked u WHERE l.store_id = u.store_id AND l.webhook_id = u.webhook_id)
    SELECT t.webhook_id FROM leased t;
END $$;
