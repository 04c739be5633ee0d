-- Over all stores: an app has one endpoint for all stores that install it.
-- Resumes the lanes of an app's endpoint: a worker that leases one has the endpoint's old settings. Returns their number.
CREATE FUNCTION resume_app_lanes(in_app_id bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    lane    record;
    resumed bigint := 0;
BEGIN
    FOR lane IN
        SELECT w.store_id, w.id FROM webhooks w JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
         WHERE w.app_id = in_app_id AND w.of_app AND w.ended_at IS NULL AND w.status = 'active'
           AND (l.waiting > 0 OR l.owner <> '' OR l.breaker = 'open')
         ORDER BY w.store_id, w.id
    LOOP
        PERFORM resume_lane(lane.store_id, lane.id);
        resumed := resumed + 1;
    END LOOP;
    RETURN resumed;
END $$;
