-- An entry of the timeline as callers see it.
CREATE FUNCTION comment_document(c order_comments) RETURNS text LANGUAGE sql STABLE RETURN
    '{"id":' || c.id || ',"order_id":' || c.order_id || ',"type":"' || c.type || '","visibility":"' || c.visibility
    || '","body":' || json_text(c.body) || ',"author":' || c.author || ',"changes":' || c.changes
    || ',"created_at":"' || rfc3339(c.created_at) || '"}';
