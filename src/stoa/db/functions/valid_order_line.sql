-- What must be true of a row of order_lines; valid_order says why it is a function.
CREATE OR REPLACE FUNCTION valid_order_line(quantity integer, fulfilled_quantity integer, returned_quantity integer) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN quantity > 0 AND fulfilled_quantity BETWEEN 0 AND quantity AND returned_quantity BETWEEN 0 AND fulfilled_quantity;
END $$;
