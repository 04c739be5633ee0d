-- Over all stores: a worker looks for lanes that are due, whichever store they belong to.
-- The buckets in which lanes are due, on the nodes that can be reached.
CREATE FUNCTION due_buckets() RETURNS SETOF smallint
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    stores bigint[];
BEGIN
    BEGIN
        stores := ARRAY(SELECT DISTINCT o.store_id
                          FROM (SELECT l.store_id FROM lanes l WHERE l.due_at <= clock_timestamp() LIMIT 20000) o);
    EXCEPTION WHEN connection_exception OR admin_shutdown OR crash_shutdown OR cannot_connect_now OR internal_error OR io_error THEN
        stores := reached_stores('lanes', 'due_at <= clock_timestamp()');
    END;
    RETURN QUERY SELECT DISTINCT (t.store_id % 64)::smallint FROM unnest(stores) AS t (store_id);
END $$;
