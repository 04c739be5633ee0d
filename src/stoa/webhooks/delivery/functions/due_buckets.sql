-- Over all stores: a worker looks for lanes that are due, whichever store they belong to.
-- The buckets in which lanes are due.
CREATE FUNCTION due_buckets() RETURNS SETOF smallint
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT DISTINCT (l.store_id % 64)::smallint FROM lanes l WHERE l.due_at <= clock_timestamp()
                    AND NOT store_has_left(l.store_id);
END $$;
