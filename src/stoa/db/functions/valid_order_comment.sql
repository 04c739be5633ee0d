-- What must be true of a row of order_comments; valid_order says why it is a function.
CREATE OR REPLACE FUNCTION valid_order_comment(type text, visibility text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN type IN ('comment', 'status_change', 'edit', 'system') AND visibility IN ('internal', 'customer');
END $$;
