-- Removes what ended a while ago and has nothing left to tell.
CREATE FUNCTION remove_ended() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    lane  record;
    total integer := 0;
BEGIN
    FOR lane IN
        SELECT l.bucket, l.webhook_id, l.store_id
          FROM webhooks w JOIN lanes l ON l.bucket = (w.store_id % 64)::smallint AND l.webhook_id = w.id
         WHERE w.ended_at < now() - interval '1 minute' AND l.waiting <= 0 AND l.owner = ''
           FOR UPDATE OF l SKIP LOCKED
    LOOP
        DELETE FROM lanes l WHERE l.bucket = lane.bucket AND l.webhook_id = lane.webhook_id;
        DELETE FROM webhooks w WHERE w.store_id = lane.store_id AND w.id = lane.webhook_id;
        total := total + 1;
    END LOOP;
    RETURN total;
END $$;
