-- Queues deliveries of the log again, each under a new sequence, in the order given; those that still wait become due now.
-- Says how many there were.
CREATE FUNCTION queue_again(in_store_id bigint, in_webhook_id bigint, in_sequences bigint[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    b      smallint := (in_store_id % 64)::smallint;
    moment timestamptz;
    lane   lanes;
    added  integer;
    hurried integer;
BEGIN
    SELECT l.* INTO lane FROM lanes l WHERE l.bucket = b AND l.webhook_id = in_webhook_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    moment := clock_timestamp();
    UPDATE pending_deliveries p SET due_at = moment
     WHERE p.bucket = b AND p.webhook_id = in_webhook_id AND p.sequence = ANY (in_sequences) AND p.due_at < 'infinity';
    GET DIAGNOSTICS hurried = ROW_COUNT;
    INSERT INTO pending_deliveries (bucket, webhook_id, sequence, store_id, event_id, event_day, event_type,
                                    resource_type, resource_id, resource_version, ordered_by, redelivery_of, due_at, created_at)
    SELECT b, in_webhook_id, lane.next_sequence + d.place - 1, in_store_id, d.event_id, d.event_day, d.event_type,
           d.resource_type, d.resource_id, d.resource_version, d.ordered_by, d.sequence,
           CASE WHEN d.ordered_by IS NOT NULL AND (d.turn > 1 OR (
                     SELECT p.sequence FROM pending_deliveries p
                      WHERE p.bucket = b AND p.webhook_id = in_webhook_id AND p.ordered_by = d.ordered_by
                      ORDER BY p.ordered_by, p.sequence LIMIT 1) IS NOT NULL)
                THEN 'infinity' ELSE moment END,
           moment
      FROM (SELECT t.*, row_number() OVER (ORDER BY t.sequence) AS place,
                   row_number() OVER (PARTITION BY t.ordered_by ORDER BY t.sequence) AS turn
              FROM (SELECT d.sequence, d.event_id, d.event_day, d.event_type, d.resource_type, d.resource_id,
                           d.resource_version, CASE WHEN w.ordering = 'resource' THEN d.resource_type || ':' || d.resource_id END AS ordered_by
                      FROM deliveries d JOIN webhooks w ON w.store_id = in_store_id AND w.id = in_webhook_id
                     WHERE d.store_id = in_store_id AND d.webhook_id = in_webhook_id
                       AND d.sequence = ANY (in_sequences)) t) d;
    GET DIAGNOSTICS added = ROW_COUNT;
    UPDATE lanes l
       SET next_sequence = l.next_sequence + added, waiting = l.waiting + added,
           due_at = CASE WHEN l.owner <> '' OR w.status <> 'active' OR w.url IS NULL THEN l.due_at
                         ELSE lane_due(least(l.due_at, moment), l.hold_until) END
      FROM webhooks w
     WHERE l.bucket = b AND l.webhook_id = in_webhook_id AND w.store_id = in_store_id AND w.id = in_webhook_id
       AND added + hurried > 0;
    RETURN added + hurried;
END $$;
