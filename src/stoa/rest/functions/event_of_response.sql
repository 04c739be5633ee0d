-- The event of this transaction whose data is the document of a response, byte by byte; null if there is none. Only the newest
-- event of that length is compared: comparing reads a large value.
CREATE FUNCTION event_of_response(in_store_id bigint, in_body bytea) RETURNS text
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    resource bigint := substring(encode(substr(in_body, 1, 40), 'escape') FROM '^\{"data":\{"id":([0-9]{1,18}),')::bigint;
    found_id text;
    found_data text;
BEGIN
    SELECT e.id, e.data INTO found_id, found_data FROM events e
     WHERE e.store_id = in_store_id AND e.resource_id = resource AND e.routed_on = 'infinity'
       AND octet_length(e.data) = octet_length(in_body) - octet_length('{"data":,"meta":{}}')
     ORDER BY e.position DESC LIMIT 1;
    RETURN CASE WHEN event_response(found_data) = in_body THEN found_id END;
END $$;
