-- Over all stores: workers take the redelivery jobs of all stores.
-- The oldest jobs that are due on the nodes that can be reached, without locks; a job is then taken in its store, where another
-- worker may have it.
CREATE FUNCTION due_redeliveries() RETURNS TABLE (store_id bigint, id bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    stores bigint[];
BEGIN
    BEGIN
        stores := ARRAY(SELECT DISTINCT o.store_id
                          FROM (SELECT r.store_id FROM redeliveries r
                                 WHERE r.finished_at IS NULL AND r.due_at <= now() LIMIT 20000) o);
    EXCEPTION WHEN connection_exception OR admin_shutdown OR crash_shutdown OR cannot_connect_now OR internal_error OR io_error THEN
        stores := reached_stores('redeliveries', 'finished_at IS NULL AND due_at <= now()');
    END;
    IF stores <> '{}' THEN
        RETURN QUERY SELECT r.store_id, r.id FROM redeliveries r
                      WHERE r.store_id = ANY (stores) AND r.finished_at IS NULL AND r.due_at <= now()
                      ORDER BY r.due_at LIMIT 10;
    END IF;
END $$;
