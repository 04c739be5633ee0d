-- Stores the responses of several writes under their idempotency keys, in the transaction of those writes. Returns the keys
-- that could not be stored: another request has stored its response first or, if in_flight, has not finished. The caller
-- must roll back then. A racing request is waited for only a moment.
CREATE FUNCTION keep_responses(in_store_id bigint, in_responses json, in_bodies bytea[])
RETURNS TABLE (app_id bigint, key text, in_flight boolean) LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    response record;
BEGIN
    BEGIN
        INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint, status, headers, body, event_id, subject_type,
                                      subject_id)
        SELECT in_store_id, t.app_id, t.key, t.fingerprint, t.status, t.headers,
               CASE WHEN t.event_id IS NULL THEN in_bodies[t.body] END, t.event_id, t.subject_type, t.subject_id
          FROM (SELECT r.*, CASE WHEN r.is_large THEN event_of_response(in_store_id, in_bodies[r.body]) END AS event_id
                  FROM json_to_recordset(in_responses) AS r (
                           app_id bigint, key text, fingerprint bytea, status integer, headers text, body integer,
                           is_large boolean, subject_type text, subject_id bigint)) t
         ORDER BY t.app_id, t.key;
        RETURN;
    EXCEPTION WHEN unique_violation OR lock_not_available THEN
        NULL;  -- some key is in use: find out which
    END;
    FOR response IN SELECT t.app_id, t.key, t.fingerprint
                      FROM json_to_recordset(in_responses) AS t (app_id bigint, key text, fingerprint bytea)
    LOOP
        BEGIN
            INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint)
            VALUES (in_store_id, response.app_id, response.key, response.fingerprint);
        EXCEPTION
            WHEN unique_violation THEN
                RETURN QUERY SELECT response.app_id, response.key, false;
            WHEN lock_not_available THEN
                RETURN QUERY SELECT response.app_id, response.key, true;
        END;
    END LOOP;
END $$;
