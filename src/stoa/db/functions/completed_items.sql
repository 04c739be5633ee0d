-- A stored array of objects, such as the lines of an order, with the members of `defaults` that they lack.
CREATE OR REPLACE FUNCTION completed_items(items text, defaults json) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN completed(items::json, defaults)::text;
END $$;
