-- Over all stores: workers take the imports of all stores.
-- The oldest jobs that may run, without locks: nobody has their lease, and they have one of the two slots of their app, or one is
-- free. A job is then claimed in its store, where it may be gone.
CREATE FUNCTION waiting_imports() RETURNS TABLE (store_id bigint, import_id text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT w.store_id, w.import_id FROM import_queue w
                  WHERE w.lease_until <= now() AND (w.lane IS NOT NULL OR 2 > (
                            SELECT count(*) FROM import_queue o
                             WHERE o.store_id = w.store_id AND o.app_id IS NOT DISTINCT FROM w.app_id AND o.lane IS NOT NULL))
                    AND NOT store_has_left(w.store_id)
                  ORDER BY w.created_at LIMIT 10;
END $$;
