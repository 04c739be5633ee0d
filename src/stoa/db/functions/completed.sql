-- A JSON document with the members of `defaults` that it lacks, in the order of the document and then of the defaults. A name in
-- the defaults that ends with a dot is a member whose own members have defaults: an object, or an array of objects.
CREATE OR REPLACE FUNCTION completed(document json, defaults json) RETURNS json LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF json_typeof(document) = 'array' THEN
        RETURN (SELECT '[' || coalesce(string_agg(completed(e.item, defaults)::text, ',' ORDER BY e.n), '') || ']'
                  FROM json_array_elements(document) WITH ORDINALITY AS e (item, n))::json;
    ELSIF json_typeof(document) <> 'object' THEN
        RETURN document;
    END IF;
    RETURN (
        SELECT '{' || coalesce(string_agg(to_json(m.name)::text || ':' || m.value::text, ',' ORDER BY m.missing, m.n), '') || '}'
          FROM (SELECT false AS missing, e.n, e.name,
                       CASE WHEN defaults -> (e.name || '.') IS NULL THEN e.value
                       ELSE completed(e.value, defaults -> (e.name || '.')) END AS value
                  FROM json_each(document) WITH ORDINALITY AS e (name, value, n)
                 UNION ALL
                SELECT true, e.n, e.name, e.value FROM json_each(defaults) WITH ORDINALITY AS e (name, value, n)
                 WHERE NOT e.name LIKE '%.' AND document -> e.name IS NULL) m)::json;
END $$;
