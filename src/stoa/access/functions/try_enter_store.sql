-- Enters a store like enter_store, but returns false if it is not here; a change of global rows then sends the store a message.
CREATE FUNCTION try_enter_store(in_store_id bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    is_here boolean;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(store_lock(in_store_id));
    SELECT store_is_here(in_store_id) INTO is_here;
    RETURN is_here;
END $$;
