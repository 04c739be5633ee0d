-- What a store grants to an app that is installed on it. Without a row if the app is not installed.
CREATE FUNCTION store_grant(in_store_id bigint, in_app_id bigint)
RETURNS TABLE (scopes text[], rate_burst integer, rate_refill integer, reinstalled_at timestamptz, definitions text)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
#variable_conflict use_column
BEGIN
    SELECT i.scopes, i.rate_burst, i.rate_refill, i.reinstalled_at INTO scopes, rate_burst, rate_refill, reinstalled_at
      FROM installations i WHERE i.store_id = in_store_id AND i.app_id = in_app_id;
    IF FOUND THEN
        definitions := store_definitions(in_store_id);
        RETURN NEXT;
    END IF;
END $$;
