-- A customer as an event carries it: of the metadata only what is shared. One that is erased is a tombstone.
CREATE FUNCTION customer_document(c customers) RETURNS text LANGUAGE sql STABLE RETURN
    CASE WHEN c.deleted_at IS NULL THEN
        '{"id":' || c.id || c.head || regexp_replace(c.shown, E'\x1e[^\x1f]*\x1f', '', 'g') || c.tail
    ELSE '{"id":' || c.id || ',"deleted_at":"' || rfc3339(c.deleted_at) || '","version":' || c.version || '}' END;
