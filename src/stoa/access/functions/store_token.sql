-- Stores an access token, and returns when it expires. Without scopes, it has every granted one.
CREATE FUNCTION store_token(
    in_token_hash bytea, in_app_id bigint, in_store_id bigint, in_scopes text[], in_seconds double precision
) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    expires timestamptz := now() + make_interval(secs => in_seconds);
BEGIN
    INSERT INTO tokens (token_hash, app_id, store_id, scopes, expires_at)
    VALUES (in_token_hash, in_app_id, in_store_id, in_scopes, expires);
    RETURN expires;
END $$;
