CREATE FUNCTION order_document(o orders) RETURNS text LANGUAGE sql STABLE RETURN
    '{"id":' || o.id || o.head || ',"line_items":' || o.lines || o.person || o.tail;
