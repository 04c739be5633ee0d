-- A JSON list of objects in which these members have the value `empty`; the order of the members stays.
CREATE OR REPLACE FUNCTION list_cleared(list text, members text[], empty text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE RETURN
    (SELECT '[' || coalesce(string_agg('{' || o.members || '}', ',' ORDER BY o.n), '') || ']'
       FROM (SELECT object.n, string_agg(to_json(m.key)::text || ':'
                    || CASE WHEN m.key = ANY (list_cleared.members) THEN empty ELSE m.value::text END, ','
                    ORDER BY m.index) AS members
               FROM json_array_elements(list::json) WITH ORDINALITY AS object (value, n),
                    json_each(object.value) WITH ORDINALITY AS m (key, value, index)
              GROUP BY object.n) o);
