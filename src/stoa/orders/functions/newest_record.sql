-- The time of the newest record of a kind in the head of an order; null if there is none. Columns for filters are derived with it.
CREATE FUNCTION newest_record(head text, in_kind text) RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF position('"payments":[]' IN head) > 0 THEN  -- inside a text, quotes have backslashes
        RETURN NULL;
    END IF;
    RETURN (SELECT max((r ->> 'created_at')::timestamptz)
              FROM json_array_elements(('{' || substr(head, 2) || '}')::json -> 'payments') AS r
             WHERE r ->> 'kind' = in_kind);
END $$;
