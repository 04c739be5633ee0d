-- Over all stores: maintenance.
-- Deletes pending deliveries whose event has expired, and those of an ended subscription except `app.uninstalled`.
CREATE FUNCTION delete_expired_deliveries(in_days integer, in_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    lane    record;
    deleted integer;
    total   integer := 0;
BEGIN
    FOR lane IN
        SELECT l.store_id, l.webhook_id, w.url, w.ended_at IS NOT NULL AS ended
          FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
         WHERE l.waiting > 0
           AND (w.ended_at IS NOT NULL OR current_date - in_days > (
                SELECT p.event_day FROM pending_deliveries p
                 WHERE p.store_id = l.store_id AND p.webhook_id = l.webhook_id
                 ORDER BY p.store_id, p.webhook_id, p.sequence LIMIT 1))
    LOOP
        PERFORM 1 FROM lanes l WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id AND l.waiting > 0
            FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM pending_deliveries p
         WHERE p.store_id = lane.store_id AND p.webhook_id = lane.webhook_id AND p.sequence = ANY (ARRAY(
               SELECT q.sequence FROM pending_deliveries q
                WHERE q.store_id = lane.store_id AND q.webhook_id = lane.webhook_id
                  AND CASE WHEN lane.ended THEN q.event_type <> 'app.uninstalled' OR lane.url IS NULL
                           ELSE q.event_day < current_date - in_days END
                ORDER BY q.store_id, q.webhook_id, q.sequence LIMIT in_limit));
        GET DIAGNOSTICS deleted = ROW_COUNT;
        UPDATE lanes l SET waiting = l.waiting - deleted
         WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id;
        total := total + deleted;
    END LOOP;
    RETURN total;
END $$;
