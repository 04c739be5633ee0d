-- What must be true of a row of variants; valid_order says why it is a function. Only the default location may owe units.
CREATE OR REPLACE FUNCTION valid_variant(
    price bigint, on_hand bigint, reserved bigint, other_on_hand bigint, other_reserved bigint, allow_backorder boolean,
    track_inventory boolean
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN price >= 0 AND other_reserved BETWEEN 0 AND other_on_hand AND reserved >= other_reserved
       AND (reserved - other_reserved <= on_hand - other_on_hand OR allow_backorder OR NOT track_inventory);
END $$;
