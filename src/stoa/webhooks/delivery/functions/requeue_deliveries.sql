-- Queues deliveries of the log again, each under a new sequence, in the order of their sequences; those that are still pending
-- become due now. Returns the number of deliveries.
CREATE FUNCTION requeue_deliveries(in_store_id bigint, in_webhook_id bigint, in_sequences bigint[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    moment    timestamptz;
    next      bigint;
    added     integer;
    expedited integer;
BEGIN
    SELECT l.next_sequence INTO next FROM lanes l
     WHERE l.store_id = in_store_id AND l.webhook_id = in_webhook_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    moment := clock_timestamp();
    UPDATE pending_deliveries p SET due_at = least(p.due_at, moment)
     WHERE p.store_id = in_store_id AND p.webhook_id = in_webhook_id AND p.sequence = ANY (in_sequences)
       AND p.due_at < 'infinity';
    GET DIAGNOSTICS expedited = ROW_COUNT;
    INSERT INTO pending_deliveries (store_id, webhook_id, sequence, event_id, event_day, event_type, resource_type,
                                    resource_id, resource_version, ordered_by, redelivery_of, due_at, created_at)
    SELECT in_store_id, in_webhook_id, next + d.nth - 1, d.event_id, d.event_day, d.event_type, d.resource_type,
           d.resource_id, d.resource_version, d.ordered_by, d.sequence,
           CASE WHEN d.ordered_by IS NOT NULL AND (d.nth_of_resource > 1 OR (
                     SELECT p.sequence FROM pending_deliveries p
                      WHERE p.store_id = in_store_id AND p.webhook_id = in_webhook_id AND p.ordered_by = d.ordered_by
                      ORDER BY p.ordered_by, p.sequence LIMIT 1) IS NOT NULL)
                THEN 'infinity' ELSE moment END,
           moment
      FROM (SELECT t.*, row_number() OVER (ORDER BY t.sequence) AS nth,
                   row_number() OVER (PARTITION BY t.ordered_by ORDER BY t.sequence) AS nth_of_resource
              FROM (SELECT d.sequence, d.event_id, d.event_day, d.event_type, d.resource_type, d.resource_id,
                           d.resource_version,
                           CASE WHEN w.ordering = 'resource' THEN d.resource_type || ':' || d.resource_id END AS ordered_by
                      FROM deliveries d JOIN webhooks w ON w.store_id = in_store_id AND w.id = in_webhook_id
                     WHERE d.store_id = in_store_id AND d.webhook_id = in_webhook_id
                       AND d.sequence = ANY (in_sequences)) t) d;
    GET DIAGNOSTICS added = ROW_COUNT;
    UPDATE lanes l
       SET next_sequence = l.next_sequence + added, waiting = l.waiting + added,
           due_at = CASE WHEN l.owner <> '' OR w.status <> 'active' OR w.url IS NULL THEN l.due_at
                         ELSE greatest(least(l.due_at, moment), l.hold_until) END
      FROM webhooks w
     WHERE l.store_id = in_store_id AND l.webhook_id = in_webhook_id AND w.store_id = in_store_id AND w.id = in_webhook_id
       AND added + expedited > 0;
    RETURN added + expedited;
END $$;
