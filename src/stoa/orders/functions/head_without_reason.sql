-- The head of an order's document without the reason for its cancellation. In JSON only a key is followed by a colon.
CREATE FUNCTION head_without_reason(head text) RETURNS text LANGUAGE sql STABLE RETURN
    regexp_replace(head, '"cancel_reason":"(\\.|[^"\\])*"', '"cancel_reason":null');
