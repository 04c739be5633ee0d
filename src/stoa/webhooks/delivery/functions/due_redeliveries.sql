-- Over all stores: workers take the redelivery jobs of all stores.
-- The oldest jobs that are due, without locks; a job is then taken in its store, where another worker may have it.
CREATE FUNCTION due_redeliveries() RETURNS TABLE (store_id bigint, id bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT r.store_id, r.id FROM redeliveries r WHERE r.finished_at IS NULL AND r.due_at <= now()
                    AND NOT store_has_left(r.store_id)
                  ORDER BY r.due_at LIMIT 10;
END $$;
