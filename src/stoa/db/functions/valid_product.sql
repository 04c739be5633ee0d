-- What must be true of a row of products; valid_order says why it is a function.
CREATE OR REPLACE FUNCTION valid_product(status text, price bigint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN status IN ('active', 'draft', 'archived') AND price >= 0;
END $$;
