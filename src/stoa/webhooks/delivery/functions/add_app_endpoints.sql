-- Over all stores: an app has one endpoint for all stores that install it.
-- Makes the endpoint of an app a subscription of each of these stores that has not left. Returns how many are new.
CREATE FUNCTION add_app_endpoints(in_app_id bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    installation record;
    added        bigint := 0;
    away         bigint[] := ARRAY(SELECT r.store_id FROM store_residence r WHERE NOT r.here);
BEGIN
    FOR installation IN SELECT i.store_id FROM installations i
                         WHERE i.app_id = in_app_id AND i.store_id <> ALL (away) ORDER BY i.store_id LOOP
        added := added + add_app_endpoint(installation.store_id, in_app_id);
    END LOOP;
    RETURN added;
END $$;
