-- Over all stores: an app has one endpoint for all stores that install it.
-- Resumes the lanes of an app's endpoint and of its managed subscriptions: a worker that leases one has the old settings and
-- secrets. Returns their number.
CREATE FUNCTION resume_app_lanes(in_app_id bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    lane    record;
    resumed bigint := 0;
    away    bigint[] := ARRAY(SELECT r.store_id FROM store_residence r WHERE NOT r.here);
BEGIN
    FOR lane IN
        SELECT w.store_id, w.id
          FROM (SELECT e.store_id, e.id FROM webhooks e
                 WHERE e.app_id = in_app_id AND e.of_app AND e.ended_at IS NULL AND e.status = 'active'
                 UNION ALL
                SELECT m.store_id, m.id FROM app_subscriptions d JOIN webhooks m ON m.managed_by = d.id
                 WHERE d.app_id = in_app_id AND m.ended_at IS NULL AND m.status = 'active') w
               JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
         WHERE (l.waiting > 0 OR l.owner <> '' OR l.breaker = 'open') AND w.store_id <> ALL (away)
         ORDER BY w.store_id, w.id
    LOOP
        PERFORM resume_lane(lane.store_id, lane.id);
        resumed := resumed + 1;
    END LOOP;
    RETURN resumed;
END $$;
