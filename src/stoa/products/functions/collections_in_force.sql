-- The collections of a store with their rules, for a transaction that then writes products. It shares the lock of the current
-- revision until it ends. The duty that applies a later revision to the existing products first takes the locks of the earlier ones, and
-- so sees every product that was written by earlier rules. A change of the rules waits for nobody.
CREATE FUNCTION collections_in_force(in_store_id bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    seen  bigint;
    found bigint := coalesce((SELECT r.revision FROM collection_revisions r WHERE r.store_id = in_store_id), 0);
BEGIN
    WHILE found IS DISTINCT FROM seen LOOP
        seen := found;
        PERFORM pg_advisory_xact_lock_shared(hashtextextended(in_store_id || '/collections/' || seen, 7));
        found := coalesce((SELECT r.revision FROM collection_revisions r WHERE r.store_id = in_store_id), 0);
    END LOOP;
    RETURN coalesce((
        SELECT json_object_agg(c.handle, c.rules::json ORDER BY c.handle)
          FROM collections c WHERE c.store_id = in_store_id AND c.deleted_revision IS NULL)::text, '{}');
END $$;
