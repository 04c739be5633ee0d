CREATE OR REPLACE FUNCTION stock_tail(on_hand bigint, reserved bigint) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$  -- for the reason that rfc3339 gives
BEGIN
    RETURN ',"stock":{"on_hand":' || on_hand || ',"reserved":' || reserved || ',"available":' || on_hand - reserved || '}';
END $$;
