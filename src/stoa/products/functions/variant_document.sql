-- Plain columns, not a whole row: on Citus a row has its shard's own type. No function reads a table for the same reason.
CREATE FUNCTION variant_document(id bigint, product_id bigint, head text, tail text)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN
    '{"id":' || id || ',"product_id":' || product_id || head || tail;
