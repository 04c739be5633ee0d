-- Over all stores: a worker renews all its leases at once.
-- Returns the subscriptions whose lanes the worker still leases, store by store. A lane that is locked is renewed with the next
-- heartbeat, so that no heartbeat waits for a lock.
CREATE FUNCTION renew_leases(in_owner text, in_takeover interval, in_lanes json) RETURNS SETOF bigint
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    takeover_at timestamptz := clock_timestamp() + in_takeover;
    in_store_id bigint;
    webhooks    bigint[];
    epochs      bigint[];
    leased      bigint[];
    unlocked    bigint[];
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR in_store_id, webhooks, epochs IN
        SELECT t.store_id, array_agg(t.webhook_id), array_agg(t.epoch)
          FROM json_to_recordset(in_lanes) AS t (store_id bigint, webhook_id bigint, epoch bigint)
         GROUP BY t.store_id ORDER BY t.store_id
    LOOP
        leased := ARRAY(SELECT l.webhook_id FROM unnest(webhooks, epochs) AS t (webhook_id, epoch)
                               JOIN lanes l ON l.store_id = in_store_id AND l.webhook_id = t.webhook_id
                         WHERE l.owner = in_owner AND l.epoch = t.epoch);
        unlocked := ARRAY(SELECT l.webhook_id FROM lanes l
                           WHERE l.store_id = in_store_id AND l.webhook_id = ANY (leased) AND l.owner = in_owner
                             FOR UPDATE SKIP LOCKED);
        UPDATE lanes l SET due_at = least(takeover_at, l.lease_until)
         WHERE l.store_id = in_store_id AND l.webhook_id = ANY (unlocked);
        RETURN QUERY SELECT unnest(leased);
    END LOOP;
END $$;
