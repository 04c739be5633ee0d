-- Keeps the answers of several writes beside their work. A racing claim of one of their keys is waited for only a moment.
CREATE FUNCTION keep_answers(
    in_store_id bigint, k_app bigint[], k_key text[], k_fingerprint bytea[], k_status integer[], k_headers text[],
    k_body bytea[], k_subject_type text[], k_subject_id bigint[]
) RETURNS integer LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
BEGIN
    INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint, status, headers, body, subject_type, subject_id)
    SELECT in_store_id, t.app_id, t.key, t.fingerprint, t.status, t.headers, t.body, t.subject_type, t.subject_id
      FROM unnest(k_app, k_key, k_fingerprint, k_status, k_headers, k_body, k_subject_type, k_subject_id)
           AS t (app_id, key, fingerprint, status, headers, body, subject_type, subject_id)
     ORDER BY t.app_id, t.key;
    RETURN cardinality(k_key);
END $$;
