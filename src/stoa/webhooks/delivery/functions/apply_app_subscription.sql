-- Brings a subscription that an app declares to one store: adds, changes or ends its copy. Returns 1 if there was anything to
-- do. A merchant's pause stays; a copy that was disabled is sent to again. The secret is that of the app, so the copy has none.
CREATE FUNCTION apply_app_subscription(in_store_id bigint, in_subscription_id bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    d     app_subscriptions;
    copy  record;
    sends boolean;
BEGIN
    SELECT * INTO d FROM app_subscriptions s WHERE s.id = in_subscription_id;
    SELECT w.id, w.managed_revision INTO copy FROM webhooks w
     WHERE w.store_id = in_store_id AND w.app_id = d.app_id AND w.managed_by = d.id AND w.ended_at IS NULL FOR NO KEY UPDATE;
    IF d.removed_at IS NOT NULL THEN
        IF copy.id IS NULL THEN
            RETURN 0;
        END IF;
        UPDATE webhooks w SET ended_at = now(), updated_at = now(), version = w.version + 1
         WHERE w.store_id = in_store_id AND w.id = copy.id;
        PERFORM resume_lane(in_store_id, copy.id);
        RETURN 1;
    END IF;
    IF copy.id IS NULL THEN
        PERFORM 1 FROM installations i WHERE i.store_id = in_store_id AND i.app_id = d.app_id FOR KEY SHARE;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        -- VALUES, because Citus counts the rows of INSERT ... SELECT before their conflicts.
        INSERT INTO webhooks (store_id, app_id, name, url, events, filter, changed, fields, payload, ordering, skip_own,
                              max_in_flight, rate_per_s, sealed_secret, same_key, managed_by, managed_revision)
        VALUES (in_store_id, d.app_id, d.name, d.url, d.events, d.filter, d.changed, d.fields, d.payload, d.ordering, d.skip_own,
                d.max_in_flight, d.rate_per_s, '', convert_to('app subscription ' || d.id, 'UTF8'), d.id, d.revision)
        ON CONFLICT (store_id, app_id, same_key) WHERE ended_at IS NULL DO NOTHING
        RETURNING id INTO copy;
        IF copy.id IS NULL THEN
            RETURN 0;
        END IF;
        INSERT INTO lanes (store_id, webhook_id) VALUES (in_store_id, copy.id);
        RETURN 1;
    END IF;
    IF copy.managed_revision = d.revision THEN
        RETURN 0;
    END IF;
    UPDATE webhooks w
       SET name = d.name, url = d.url, events = d.events, filter = d.filter, changed = d.changed, fields = d.fields,
           payload = d.payload, ordering = d.ordering, skip_own = d.skip_own, max_in_flight = d.max_in_flight,
           rate_per_s = d.rate_per_s, managed_revision = d.revision,
           status = CASE WHEN w.status = 'disabled' THEN 'active' ELSE w.status END, disabled_reason = NULL,
           version = w.version + 1, updated_at = now()
     WHERE w.store_id = in_store_id AND w.id = copy.id
    RETURNING w.status = 'active' AND w.url IS NOT NULL INTO sends;
    -- A worker that leases the lane has the old settings.
    IF sends THEN
        PERFORM resume_lane(in_store_id, copy.id);
    ELSE
        PERFORM pause_lane(in_store_id, copy.id);
    END IF;
    RETURN 1;
END $$;
