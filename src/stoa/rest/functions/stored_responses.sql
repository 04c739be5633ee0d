-- The responses that were stored under several idempotency keys.
CREATE FUNCTION stored_responses(in_store_id bigint, in_keys json)
RETURNS TABLE (app_id bigint, key text, fingerprint bytea, status integer, headers text, body bytea)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT k.app_id, k.key, k.fingerprint, k.status, k.headers,
           coalesce(k.body, (SELECT event_response(e.data) FROM events e WHERE e.store_id = in_store_id AND e.id = k.event_id))
      FROM json_to_recordset(in_keys) AS t (app_id bigint, key text)
           CROSS JOIN LATERAL (SELECT i.* FROM idempotency_keys i
                                WHERE i.store_id = in_store_id AND i.app_id = t.app_id AND i.key = t.key LIMIT 1) k;
END $$;
