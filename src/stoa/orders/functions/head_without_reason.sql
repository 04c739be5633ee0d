-- The purchase without what somebody wrote of why it was called off. In JSON no other quotation mark stands before a colon.
CREATE FUNCTION head_without_reason(head text) RETURNS text LANGUAGE sql STABLE RETURN
    regexp_replace(head, '"cancel_reason":"(\\.|[^"\\])*"', '"cancel_reason":null');
