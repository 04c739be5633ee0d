-- Over all stores: maintenance.
-- Deletes subscriptions that ended at least a minute ago and have nothing left to send.
CREATE FUNCTION delete_ended_subscriptions() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    lane  record;
    total integer := 0;
BEGIN
    FOR lane IN
        SELECT l.store_id, l.webhook_id
          FROM webhooks w JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
         WHERE w.ended_at < now() - interval '1 minute' AND l.waiting <= 0 AND l.owner = ''
    LOOP
        PERFORM 1 FROM lanes l WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id
            AND l.waiting <= 0 AND l.owner = '' FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM lanes l WHERE l.store_id = lane.store_id AND l.webhook_id = lane.webhook_id;
        DELETE FROM webhooks w WHERE w.store_id = lane.store_id AND w.id = lane.webhook_id;
        total := total + 1;
    END LOOP;
    RETURN total;
END $$;
