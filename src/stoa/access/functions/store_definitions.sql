-- The metadata definitions of a store by owner: those of the merchant, then those of its apps, the first installed app first.
CREATE FUNCTION store_definitions(in_store_id bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT json_agg(json_build_object('app_id', app_id, 'definitions', definitions::json)
                        ORDER BY app_id IS NOT NULL, created_at, app_id)::text
          FROM (SELECT NULL::bigint AS app_id, s.metadata_definitions AS definitions, s.created_at
                  FROM stores s WHERE s.id = in_store_id AND s.metadata_definitions <> '[]'
                UNION ALL
                SELECT a.id, a.metadata_definitions, i.created_at FROM installations i JOIN apps a ON a.id = i.app_id
                 WHERE i.store_id = in_store_id AND a.metadata_definitions <> '[]') owners);
END $$;
