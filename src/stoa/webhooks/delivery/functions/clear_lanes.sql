-- What waits longer than its event is kept can no longer be told; of a subscription that has ended, only its end is.
CREATE FUNCTION clear_lanes(in_days integer, in_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    lane  record;
    gone  integer;
    total integer := 0;
BEGIN
    FOR lane IN
        SELECT l.bucket, l.webhook_id, w.url, w.ended_at IS NOT NULL AS ended
          FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
         WHERE l.waiting > 0
           AND (w.ended_at IS NOT NULL OR current_date - in_days > (
                SELECT p.event_day FROM pending_deliveries p WHERE p.bucket = l.bucket AND p.webhook_id = l.webhook_id
                 ORDER BY p.bucket, p.webhook_id, p.sequence LIMIT 1))
           FOR UPDATE OF l SKIP LOCKED
    LOOP
        DELETE FROM pending_deliveries p
         WHERE p.bucket = lane.bucket AND p.webhook_id = lane.webhook_id AND p.sequence = ANY (ARRAY(
               SELECT q.sequence FROM pending_deliveries q
                WHERE q.bucket = lane.bucket AND q.webhook_id = lane.webhook_id
                  AND CASE WHEN lane.ended THEN q.event_type <> 'app.uninstalled' OR lane.url IS NULL
                           ELSE q.event_day < current_date - in_days END
                ORDER BY q.bucket, q.webhook_id, q.sequence LIMIT in_limit));
        GET DIAGNOSTICS gone = ROW_COUNT;
        UPDATE lanes l SET waiting = l.waiting - gone WHERE l.bucket = lane.bucket AND l.webhook_id = lane.webhook_id;
        total := total + gone;
    END LOOP;
    RETURN total;
END $$;
