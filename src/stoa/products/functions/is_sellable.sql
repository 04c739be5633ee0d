-- Whether a variant can be bought now: in_stock of a product and of the list of stock levels.
-- products/working_copy.py has the same rule. PostgreSQL inlines this function.
CREATE FUNCTION is_sellable(track_inventory boolean, allow_backorder boolean, on_hand bigint, reserved bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT has_unlimited_stock(track_inventory, allow_backorder) OR on_hand > reserved $$;
