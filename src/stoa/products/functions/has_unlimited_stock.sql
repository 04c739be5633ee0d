-- Whether orders may reserve more units of a variant than it has. products/working_copy.py has the same rule.
-- PostgreSQL inlines this function.
CREATE FUNCTION has_unlimited_stock(track_inventory boolean, allow_backorder boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT allow_backorder OR NOT track_inventory $$;
