-- Brings what an app has for all stores to one store: its endpoint, its secrets, and the subscriptions that it declares. A disabled
-- endpoint is sent to again if its URL is new, or with in_resumed; in_new_secret ends the leases of workers that have the old one.
CREATE FUNCTION apply_app(in_store_id bigint, in_app_id bigint, in_resumed boolean, in_new_secret boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    c        app_callbacks;
    declared record;
    gone     record;
    waiting  record;
    changed  bigint := 0;
BEGIN
    -- An installation locks the app, too: it sees what is applied here, or is seen.
    PERFORM 1 FROM apps a WHERE a.id = in_app_id FOR NO KEY UPDATE;
    SELECT * INTO c FROM app_callbacks k WHERE k.app_id = in_app_id AND k.endpoint_url IS NOT NULL;
    IF FOUND THEN
        UPDATE webhooks w
           SET url = c.endpoint_url, sealed_secret = c.sealed_secret, sealed_old_secret = c.sealed_old_secret,
               old_secret_expires_at = c.old_secret_expires_at,
               status = CASE WHEN in_resumed OR w.url IS DISTINCT FROM c.endpoint_url THEN 'active' ELSE w.status END,
               disabled_reason = CASE WHEN in_resumed OR w.url IS DISTINCT FROM c.endpoint_url THEN NULL
                                      ELSE w.disabled_reason END,
               version = w.version + 1, updated_at = now()
         WHERE w.store_id = in_store_id AND w.app_id = in_app_id AND w.of_app AND w.ended_at IS NULL
           AND ((in_resumed AND w.status <> 'active')
                OR (w.url, w.sealed_secret, w.sealed_old_secret, w.old_secret_expires_at)
                   IS DISTINCT FROM (c.endpoint_url, c.sealed_secret, c.sealed_old_secret, c.old_secret_expires_at));
        GET DIAGNOSTICS changed = ROW_COUNT;
        IF EXISTS (SELECT FROM installations i WHERE i.store_id = in_store_id AND i.app_id = in_app_id) THEN
            PERFORM add_app_endpoint(in_store_id, in_app_id);
        END IF;
    ELSE
        UPDATE webhooks w SET ended_at = now(), url = NULL, version = w.version + 1, updated_at = now()
         WHERE w.store_id = in_store_id AND w.app_id = in_app_id AND w.of_app AND w.ended_at IS NULL;
    END IF;
    FOR declared IN SELECT d.id FROM app_subscriptions d WHERE d.app_id = in_app_id ORDER BY d.id LOOP
        PERFORM apply_app_subscription(in_store_id, declared.id);
    END LOOP;
    -- The directory deletes a removed declaration when its own stores have followed.
    FOR gone IN SELECT w.id FROM webhooks w
                 WHERE w.store_id = in_store_id AND w.app_id = in_app_id AND w.managed_by IS NOT NULL AND w.ended_at IS NULL
                   AND NOT EXISTS (SELECT FROM app_subscriptions d WHERE d.id = w.managed_by) LOOP
        UPDATE webhooks w SET ended_at = now(), updated_at = now(), version = w.version + 1
         WHERE w.store_id = in_store_id AND w.id = gone.id;
        PERFORM resume_lane(in_store_id, gone.id);
    END LOOP;
    IF in_resumed OR in_new_secret OR changed > 0 THEN
        FOR waiting IN SELECT l.webhook_id FROM webhooks w JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
                        WHERE w.store_id = in_store_id AND w.app_id = in_app_id AND (w.of_app OR w.managed_by IS NOT NULL)
                          AND w.ended_at IS NULL AND w.status = 'active'
                          AND (l.waiting > 0 OR l.owner <> '' OR l.breaker = 'open') LOOP
            PERFORM resume_lane(in_store_id, waiting.webhook_id);
        END LOOP;
    END IF;
END $$;
