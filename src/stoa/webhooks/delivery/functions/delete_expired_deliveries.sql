-- Over all stores: maintenance.
-- Deletes pending deliveries whose event has expired, and those of an ended subscription except `app.uninstalled`. The next
-- delivery of each resource becomes due, as when one is settled.
CREATE FUNCTION delete_expired_deliveries(in_days integer, in_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    moment    timestamptz := clock_timestamp();
    lane      record;
    deleted   integer;
    resources text[];  -- the ordering keys of the deleted deliveries
    freed     integer;
    total     integer := 0;
BEGIN
    FOR lane IN
        SELECT l.store_id, l.webhook_id, w.url, w.ended_at IS NOT NULL AS ended,
               w.status = 'active' AND w.url IS NOT NULL OR w.ended_at IS NOT NULL AS sends
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
        WITH expired AS (
            DELETE FROM pending_deliveries p
             WHERE p.store_id = lane.store_id AND p.webhook_id = lane.webhook_id AND p.sequence = ANY (ARRAY(
                   SELECT q.sequence FROM pending_deliveries q
                    WHERE q.store_id = lane.store_id AND q.webhook_id = lane.webhook_id
                      AND CASE WHEN lane.ended THEN q.event_type <> 'app.uninstalled' OR lane.url IS NULL
                               ELSE q.event_day < current_date - in_days END
                    ORDER BY q.store_id, q.webhook_id, q.sequence LIMIT in_limit))
            RETURNING p.ordered_by)
        SELECT count(*), array_agg(DISTINCT e.ordered_by) FILTER (WHERE e.ordered_by IS NOT NULL)
          INTO deleted, resources FROM expired e;
        UPDATE pending_deliveries p SET due_at = moment
          FROM (SELECT (SELECT q.sequence FROM pending_deliveries q
                         WHERE q.store_id = lane.store_id AND q.webhook_id = lane.webhook_id AND q.ordered_by = r.resource
                         ORDER BY q.ordered_by, q.sequence LIMIT 1) AS sequence
                  FROM unnest(resources) AS r (resource)) t
         WHERE p.store_id = lane.store_id AND p.webhook_id = lane.webhook_id AND p.sequence = t.sequence
           AND p.due_at = 'infinity';
        GET DIAGNOSTICS freed = ROW_COUNT;
        UPDATE lanes l
           SET waiting = l.waiting - deleted,
               due_at = CASE WHEN freed = 0 OR l.owner <> '' OR NOT lane.sends THEN l.due_at
                             ELSE greatest(least(l.due_at, moment), l.hold_until) END
         WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id;
        total := total + deleted;
    END LOOP;
    RETURN total;
END $$;
