-- Which of several keys were answered before.
CREATE FUNCTION keys_used(in_store_id bigint, k_app bigint[], k_key text[]) RETURNS TABLE (app_id bigint, key text)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT t.app_id, t.key FROM unnest(k_app, k_key) AS t (app_id, key)
     WHERE (SELECT k.app_id FROM idempotency_keys k
             WHERE k.store_id = in_store_id AND k.app_id = t.app_id AND k.key = t.key) IS NOT NULL;
END $$;
