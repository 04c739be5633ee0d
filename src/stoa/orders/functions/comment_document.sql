-- A timeline entry as callers see it.
CREATE FUNCTION comment_document(
    id bigint, order_id bigint, type text, visibility text, body text, author text, changes text, created_at timestamptz
) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN
    '{"id":' || id || ',"order_id":' || order_id || ',"type":"' || type || '","visibility":"' || visibility
    || '","body":' || json_text(body) || ',"author":' || author || ',"changes":' || changes
    || ',"created_at":"' || rfc3339(created_at) || '"}';
