-- A customer as an event carries it: of the metadata only the shared keys and those whose section has no start. An erased customer is a tombstone. It takes plain
-- columns, because on Citus a whole row has the type of its shard.
CREATE FUNCTION customer_document(id bigint, version integer, deleted_at timestamptz, head text, shown text, tail text)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN
    CASE WHEN deleted_at IS NULL THEN '{"id":' || id || head || replace(regexp_replace(shown, E'\x1e[^\x1f]*\x1f', '', 'g'), E'\x1f', '') || tail
    ELSE '{"id":' || id || ',"deleted_at":"' || rfc3339(deleted_at) || '","version":' || version || '}' END;
