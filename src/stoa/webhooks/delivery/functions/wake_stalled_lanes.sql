-- Over all stores: maintenance.
-- Makes lanes due that have pending deliveries but no time to send them: a lost wake-up only delays them until the next run.
-- So does a delivery that waits for an earlier one of its resource that is gone.
-- Also makes lanes due whose times lie in the future because the clock was set back since: a lease cannot end later than
-- in_lease from now, and neither an attempt nor a delivery can be from the future.
CREATE FUNCTION wake_stalled_lanes(in_lease interval) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    soon   timestamptz := moment + greatest(in_lease, interval '10 seconds');
    lane   record;
    woken  integer := 0;
BEGIN
    FOR lane IN
        SELECT l.store_id, l.webhook_id, coalesce(l.due_at > soon, false) AS jumped
          FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
         WHERE l.waiting > 0 AND (w.status = 'active' AND w.url IS NOT NULL OR w.ended_at IS NOT NULL)
           AND (l.due_at IS NULL AND l.owner = ''
                OR l.due_at > soon AND (
                   l.owner <> '' OR l.last_attempt_at > soon OR EXISTS (
                   SELECT FROM pending_deliveries p
                    WHERE p.store_id = l.store_id AND p.webhook_id = l.webhook_id AND p.created_at > soon)))
    LOOP
        PERFORM 1 FROM lanes l WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id AND l.waiting > 0
            AND (l.due_at IS NULL AND l.owner = '' OR l.due_at > soon) FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        IF lane.jumped THEN
            -- Times of the past from now on, so that this happens once.
            UPDATE pending_deliveries p
               SET due_at = CASE WHEN p.due_at < 'infinity' THEN least(p.due_at, moment) ELSE p.due_at END,
                   created_at = least(p.created_at, moment)
             WHERE p.store_id = lane.store_id AND p.webhook_id = lane.webhook_id
               AND (p.due_at > soon OR p.created_at > soon);
            UPDATE lanes l
               SET hold_until = CASE WHEN l.hold_until <= moment THEN l.hold_until END,
                   last_attempt_at = CASE WHEN l.last_attempt_at > moment THEN moment ELSE l.last_attempt_at END
             WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id;
        END IF;
        UPDATE pending_deliveries p SET due_at = moment
         WHERE p.store_id = lane.store_id AND p.webhook_id = lane.webhook_id AND p.due_at = 'infinity'
           AND NOT EXISTS (
               SELECT FROM pending_deliveries q
                WHERE q.store_id = lane.store_id AND q.webhook_id = lane.webhook_id AND q.ordered_by = p.ordered_by
                  AND q.sequence < p.sequence);
        UPDATE lanes l SET due_at = moment WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id;
        woken := woken + 1;
    END LOOP;
    RETURN woken;
END $$;
