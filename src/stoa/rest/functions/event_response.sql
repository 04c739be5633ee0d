-- The body of a response whose document is the data of an event.
CREATE FUNCTION event_response(in_data text) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT convert_to('{"data":' || in_data || ',"meta":{}}', 'UTF8') $$;
