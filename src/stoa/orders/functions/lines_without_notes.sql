-- An order's lines without what an app noted beside them; the order of members stays.
CREATE FUNCTION lines_without_notes(lines text) RETURNS text LANGUAGE sql STABLE RETURN
    (SELECT '[' || coalesce(string_agg('{' || l.members || '}', ',' ORDER BY l.n), '') || ']'
       FROM (SELECT line.n, string_agg(to_json(m.key)::text || ':'
                    || CASE WHEN m.key = 'metadata' THEN '{}' ELSE m.value::text END, ',' ORDER BY m.place) AS members
               FROM json_array_elements(lines::json) WITH ORDINALITY AS line (value, n),
                    json_each(line.value) WITH ORDINALITY AS m (key, value, place)
              GROUP BY line.n) l);
