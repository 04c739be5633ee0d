-- Begins a transaction that writes a store: waits while the store moves, and raises ST001 if it is not here. A volatile function
-- takes a new snapshot for each statement, so the look is newer than the lock.
CREATE FUNCTION enter_store(in_store_id bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_here boolean;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(store_lock(in_store_id));
    SELECT store_is_here(in_store_id) INTO is_here;
    IF NOT is_here THEN
        RAISE EXCEPTION 'store % is in another shard', in_store_id USING ERRCODE = 'ST001';
    END IF;
END $$;
