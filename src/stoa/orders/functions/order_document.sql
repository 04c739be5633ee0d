-- An order as callers see it. It takes plain columns, because a whole row has its shard's type on Citus.
CREATE FUNCTION order_document(id bigint, head text, lines text, person text, tail text)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN
    '{"id":' || id || head || ',"line_items":' || lines || person || tail;
