-- The token with one of these hashes, with everything that decides what it may do on the store now, except what the store grants.
-- Without a row if there is no such token or store.
CREATE FUNCTION token_access(in_store_id bigint, in_hashes bytea[])
RETURNS TABLE (app_id bigint, app_name text, app_status text, store_status text, seconds_left double precision, requested text[],
               created_at timestamptz, invalid boolean)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT a.id, a.name, a.status, s.status, extract(epoch FROM t.expires_at - now())::float8, t.scopes, t.created_at,
           t.revoked_at IS NOT NULL OR coalesce(t.store_id <> in_store_id, false)
      FROM tokens t JOIN apps a ON a.id = t.app_id JOIN stores s ON s.id = in_store_id
     WHERE t.token_hash = ANY (in_hashes);
END $$;
