-- The key of the advisory lock of a store: a transaction that writes the store holds it shared, and a move takes it exclusively.
CREATE FUNCTION store_lock(in_store_id bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    in_store_id # (7306232::bigint << 40);
