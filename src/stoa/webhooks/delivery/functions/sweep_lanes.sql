-- A wake-up that was lost, however that came about, costs no more than the time to the next look.
CREATE FUNCTION sweep_lanes() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    lane   record;
    swept integer := 0;
BEGIN
    FOR lane IN
        SELECT l.bucket, l.webhook_id FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
         WHERE l.due_at IS NULL AND l.waiting > 0 AND l.owner = ''
           AND (w.status = 'active' AND w.url IS NOT NULL OR w.ended_at IS NOT NULL)
           FOR UPDATE OF l SKIP LOCKED
    LOOP
        UPDATE lanes l SET due_at = moment WHERE l.bucket = lane.bucket AND l.webhook_id = lane.webhook_id;
        swept := swept + 1;
    END LOOP;
    RETURN swept;
END $$;
