-- An order's lines with empty metadata; the order of the members stays.
CREATE FUNCTION lines_without_notes(lines text) RETURNS text LANGUAGE sql STABLE RETURN
    (SELECT '[' || coalesce(string_agg('{' || l.members || '}', ',' ORDER BY l.n), '') || ']'
       FROM (SELECT line.n, string_agg(to_json(m.key)::text || ':'
                    || CASE WHEN m.key = 'metadata' THEN '{}' ELSE m.value::text END, ',' ORDER BY m.index) AS members
               FROM json_array_elements(lines::json) WITH ORDINALITY AS line (value, n),
                    json_each(line.value) WITH ORDINALITY AS m (key, value, index)
              GROUP BY line.n) l);
