-- The units of an order's line items (the stored JSON) at locations other than the default, which holds the others: the reserved
-- and the shipped ones. The first units of a line item are the shipped ones. Most orders have none, which a search tells.
CREATE OR REPLACE FUNCTION allocated_elsewhere(lines text)
RETURNS TABLE (line_id bigint, location text, reserved bigint, shipped bigint) LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE ROWS 1 AS $$
BEGIN
    IF lines !~ '"location":"(?!default")' THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT u.id, u.place, sum(u.units - u.sent)::bigint, sum(u.sent)::bigint
      FROM (SELECT (l.value ->> 'id')::bigint AS id, a.place, a.units,
                   greatest(0, least(a.units, (l.value ->> 'fulfilled_quantity')::bigint - a.earlier)) AS sent
              FROM json_array_elements(lines::json) AS l (value)
                   CROSS JOIN LATERAL (
                       SELECT e.value ->> 'location' AS place, (e.value ->> 'quantity')::bigint AS units,
                              sum((e.value ->> 'quantity')::bigint) OVER (ORDER BY e.n) - (e.value ->> 'quantity')::bigint AS earlier
                         FROM json_array_elements(l.value -> 'allocations') WITH ORDINALITY AS e (value, n)) a) u
     WHERE u.place <> 'default'
     GROUP BY u.id, u.place;
END $$;
