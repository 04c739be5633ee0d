-- Over all stores: workers take the imports of all stores.
-- The oldest jobs that may run on the nodes that can be reached, without locks: nobody has their lease, and they have one of the
-- two slots of their app, or one is free. A job is then claimed in its store, where it may be gone.
CREATE FUNCTION waiting_imports() RETURNS TABLE (store_id bigint, import_id text)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    stores bigint[];
BEGIN
    BEGIN
        stores := ARRAY(SELECT DISTINCT o.store_id
                          FROM (SELECT w.store_id FROM import_queue w WHERE w.lease_until <= now() LIMIT 20000) o);
    EXCEPTION WHEN connection_exception OR admin_shutdown OR crash_shutdown OR cannot_connect_now OR internal_error OR io_error THEN
        stores := reached_stores('import_queue', 'lease_until <= now()');
    END;
    IF stores <> '{}' THEN
        RETURN QUERY SELECT w.store_id, w.import_id FROM import_queue w
                      WHERE w.store_id = ANY (stores) AND w.lease_until <= now() AND (w.lane IS NOT NULL OR 2 > (
                                SELECT count(*) FROM import_queue o
                                 WHERE o.store_id = w.store_id AND o.store_id = ANY (stores)
                                   AND o.app_id IS NOT DISTINCT FROM w.app_id AND o.lane IS NOT NULL))
                      ORDER BY w.created_at LIMIT 10;
    END IF;
END $$;
