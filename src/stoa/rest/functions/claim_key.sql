-- Claims an idempotency key for this transaction. A racing claim waits 100 ms, then fails with lock_not_available: the key is
-- in flight.
CREATE FUNCTION claim_key(
    in_store_id bigint, in_app_id bigint, in_key text, in_fingerprint bytea,
    OUT claimed boolean, OUT fingerprint bytea, OUT status integer, OUT headers text, OUT body bytea
) LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
BEGIN
    INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint)
    VALUES (in_store_id, in_app_id, in_key, in_fingerprint) ON CONFLICT DO NOTHING;
    claimed := FOUND;
    IF NOT claimed THEN
        SELECT k.fingerprint, k.status, k.headers,
               coalesce(k.body, (SELECT event_response(e.data) FROM events e
                                  WHERE e.store_id = in_store_id AND e.id = k.event_id))
          INTO fingerprint, status, headers, body
          FROM idempotency_keys k WHERE k.store_id = in_store_id AND k.app_id = in_app_id AND k.key = in_key;
    END IF;
END $$;
