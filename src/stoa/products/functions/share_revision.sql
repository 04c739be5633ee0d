-- Shares the lock of the current revision of a store's rules until the transaction, which then writes products, ends. The duty that
-- applies a later revision to the existing products first takes the locks of the earlier ones, and so sees every product that was
-- written by earlier rules. A change of the rules waits for nobody.
CREATE FUNCTION share_revision(in_store_id bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    seen  bigint;
    found bigint := coalesce((SELECT r.revision FROM collection_revisions r WHERE r.store_id = in_store_id), 0);
BEGIN
    WHILE found IS DISTINCT FROM seen LOOP
        seen := found;
        PERFORM pg_advisory_xact_lock_shared(hashtextextended(in_store_id || '/collections/' || seen, 7));
        found := coalesce((SELECT r.revision FROM collection_revisions r WHERE r.store_id = in_store_id), 0);
    END LOOP;
END $$;
