-- Whether a move has taken the store to another shard, while its rows are still here; background work then leaves them alone. A
-- store that is being copied to this database has not arrived, which is the same.
CREATE FUNCTION store_has_left(in_store_id bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (SELECT FROM store_residence r WHERE in_store_id = r.store_id AND NOT r.here)
$$;
