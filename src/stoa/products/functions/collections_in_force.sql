-- The collections of a store with their rules, for a transaction that then writes products.
CREATE FUNCTION collections_in_force(in_store_id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM share_revision(in_store_id);
    RETURN coalesce((
        SELECT json_object_agg(c.handle, c.rules::json ORDER BY c.handle)
          FROM collections c WHERE c.store_id = in_store_id AND c.deleted_revision IS NULL)::text, '{}');
END $$;
