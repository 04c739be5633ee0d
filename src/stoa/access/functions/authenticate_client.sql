-- What a token request needs first: the app with this client id, its secrets or its keys, the stores that the request names, and failed
-- attempts. An unknown client costs the same lookups as a known one, so that timing does not reveal which it is. A token for every store
-- is stored here, so that it costs one round trip, unless attempts have failed: then a right secret must look like a wrong one until
-- `refuse_guessing` has decided. The response depends on the comparison in constant time, never on this one of two digests.
CREATE FUNCTION authenticate_client(
    in_client_id text, in_url_handle text, in_url_host text, in_resource_handle text, in_resource_host text,
    in_subjects text[], in_with_keys boolean, in_digests bytea[], in_token_hash bytea, in_seconds double precision,
    OUT app_id bigint, OUT app_status text, OUT scopes text[], OUT secrets bytea[], OUT keys text[],
    OUT url_store_id bigint, OUT resource_store_id bigint, OUT store_status text,
    OUT failures integer[], OUT seconds_left double precision[], OUT token_expires_at timestamptz
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    failures := '{0,0,0}';
    seconds_left := '{0,0,0}';
    SELECT a.id, a.status, a.scopes INTO app_id, app_status, scopes FROM apps a WHERE a.client_id = in_client_id;
    IF in_with_keys THEN
        keys := ARRAY(SELECT json_build_array(k.kid, k.algorithm, k.jwk)::text FROM app_keys k
                       WHERE k.app_id = coalesce(authenticate_client.app_id, 0));
    ELSE
        secrets := ARRAY(SELECT k.secret_hash FROM app_secrets k
                          WHERE k.app_id = coalesce(authenticate_client.app_id, 0)
                            AND (k.expires_at IS NULL OR k.expires_at > now()));
    END IF;
    IF in_url_handle <> '' THEN
        url_store_id := (SELECT s.id FROM stores s WHERE s.handle = in_url_handle);
    ELSIF in_url_host <> '' THEN
        url_store_id := (SELECT h.store_id FROM store_hosts h WHERE h.host = in_url_host);
    END IF;
    IF in_resource_handle <> '' THEN
        resource_store_id := (SELECT s.id FROM stores s WHERE s.handle = in_resource_handle);
    ELSIF in_resource_host <> '' THEN
        resource_store_id := (SELECT h.store_id FROM store_hosts h WHERE h.host = in_resource_host);
    END IF;
    IF EXISTS (SELECT FROM failed_attempts f
                WHERE f.subject = ANY (in_subjects) AND f.first_at > now() - interval '60 seconds') THEN
        SELECT f.failures, f.seconds_left INTO failures, seconds_left FROM failed_attempts_of(in_subjects) f;
    ELSIF url_store_id IS NULL AND resource_store_id IS NULL AND app_status = 'active' AND secrets && in_digests THEN
        token_expires_at := store_token(in_token_hash, app_id, NULL, NULL, in_seconds);
    END IF;
    IF url_store_id IS NOT NULL OR resource_store_id IS NOT NULL THEN
        store_status := (SELECT s.status FROM stores s WHERE s.id = coalesce(resource_store_id, url_store_id));
    END IF;
END $$;
