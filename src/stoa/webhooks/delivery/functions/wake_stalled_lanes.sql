-- Over all stores: maintenance.
-- Makes lanes due that have pending deliveries but no time to send them: a lost wake-up only delays them until the next run.
CREATE FUNCTION wake_stalled_lanes() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    lane   record;
    woken  integer := 0;
BEGIN
    FOR lane IN
        SELECT l.store_id, l.webhook_id FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
         WHERE l.due_at IS NULL AND l.waiting > 0 AND l.owner = ''
           AND (w.status = 'active' AND w.url IS NOT NULL OR w.ended_at IS NOT NULL)
           FOR UPDATE OF l SKIP LOCKED
    LOOP
        UPDATE lanes l SET due_at = moment WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id;
        woken := woken + 1;
    END LOOP;
    RETURN woken;
END $$;
