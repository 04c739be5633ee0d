-- The head of a product that a worker of the previous release wrote, with what it does not know of images: an image that keeps its id
-- and its URL keeps the other members that the stored head has.
CREATE FUNCTION kept_images(in_head text, in_stored text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    document json := ('{' || substr(in_head, 2) || '}')::json;
    stored   json := ('{' || substr(in_stored, 2) || '}')::json -> 'images';
    images   text;
BEGIN
    SELECT '[' || string_agg(coalesce(completed(e.item, k.item), e.item)::text, ',' ORDER BY e.n) || ']' INTO images
      FROM json_array_elements(document -> 'images') WITH ORDINALITY AS e (item, n)
           LEFT JOIN LATERAL (
               SELECT s.item FROM json_array_elements(stored) AS s (item)
                WHERE s.item ->> 'id' = e.item ->> 'id' AND s.item ->> 'url' = e.item ->> 'url' LIMIT 1) k ON true;
    RETURN coalesce((
        SELECT string_agg(',' || to_json(m.name)::text || ':' || CASE WHEN m.name = 'images' THEN images ELSE m.value::text END, '' ORDER BY m.n)
          FROM json_each(document) WITH ORDINALITY AS m (name, value, n)
         WHERE images IS NOT NULL), in_head);
END $$;
