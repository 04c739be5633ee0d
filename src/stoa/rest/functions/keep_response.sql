-- Stores the response of one write under its idempotency key, in the transaction of that write; false if another request has
-- stored its response under it. The caller must roll back then. A racing request is waited for only a moment.
CREATE FUNCTION keep_response(
    in_store_id bigint, in_app_id bigint, in_key text, in_fingerprint bytea, in_status integer, in_headers text, in_body bytea,
    in_event_id text, in_subject_type text, in_subject_id bigint
) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
BEGIN
    INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint, status, headers, body, event_id, subject_type, subject_id)
    VALUES (in_store_id, in_app_id, in_key, in_fingerprint, in_status, in_headers, in_body, in_event_id, in_subject_type,
            in_subject_id)
        ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
