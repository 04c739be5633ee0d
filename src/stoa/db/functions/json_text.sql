CREATE OR REPLACE FUNCTION json_text(value text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN
    coalesce(to_json(value)::text, 'null');
