-- Whether this database holds the store: as a move has noted, or else if the store's shard is the one whose name is noted here.
CREATE FUNCTION store_is_here(in_store_id bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        (SELECT r.here FROM store_residence r WHERE in_store_id = r.store_id),
        (SELECT s.shard = coalesce((SELECT f.value FROM service_facts f WHERE f.name = 'shard'), '')
           FROM stores s WHERE s.id = in_store_id),
        false)
$$;
