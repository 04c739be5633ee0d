-- Makes the endpoint of an app, and the subscriptions that it declares, subscriptions of a store, unless they are already.
-- Returns 0 if the app has no endpoint. The secrets are copied as they are sealed: they are bound to the app, not to the row.
CREATE FUNCTION add_app_endpoint(in_store_id bigint, in_app_id bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    endpoint record;
    new_id   bigint;
BEGIN
    PERFORM add_app_subscriptions(in_store_id, in_app_id);
    SELECT c.endpoint_url, c.sealed_secret, c.sealed_old_secret, c.old_secret_expires_at INTO endpoint
      FROM app_callbacks c WHERE c.app_id = in_app_id AND c.endpoint_url IS NOT NULL;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- VALUES, because Citus counts the rows of INSERT ... SELECT before their conflicts.
    INSERT INTO webhooks (store_id, app_id, of_app, name, url, events, ordering, sealed_secret, sealed_old_secret,
                          old_secret_expires_at, same_key)
    VALUES (in_store_id, in_app_id, true, 'App endpoint', endpoint.endpoint_url,
            ARRAY['app.installed', 'app.uninstalled', 'app.scopes_changed', 'customer.erased'], 'resource',
            endpoint.sealed_secret, endpoint.sealed_old_secret, endpoint.old_secret_expires_at, 'app endpoint')
    ON CONFLICT (store_id, app_id, same_key) WHERE ended_at IS NULL DO NOTHING
    RETURNING id INTO new_id;
    IF new_id IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO lanes (store_id, webhook_id) VALUES (in_store_id, new_id);
    RETURN 1;
END $$;
