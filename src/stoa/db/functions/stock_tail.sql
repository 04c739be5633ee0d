CREATE OR REPLACE FUNCTION stock_tail(on_hand bigint, reserved bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    ',"stock":{"on_hand":' || on_hand || ',"reserved":' || reserved || ',"available":' || on_hand - reserved || '}';
