-- Over all stores: the router routes the events of many stores at once.
-- The subscriptions of these stores that have not ended.
CREATE FUNCTION event_subscriptions_of_stores(in_stores bigint[])
RETURNS TABLE (store_id bigint, id bigint, app_id bigint, events text[], filter text, changed text[], skip_own boolean, ordered boolean,
               granted_scopes text[], of_app boolean, url text, payload text, fields text[], sealed_headers bytea,
               sealed_secret bytea, sealed_old_secret bytea, status text, max_in_flight integer, rate_per_s integer,
               skip_before timestamptz, ended boolean, suspended boolean, store_handle text, store_name text, currency text,
               timezone text, locale text, managed boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT s.* FROM event_subscriptions s WHERE s.store_id = ANY (in_stores) AND NOT s.ended ORDER BY s.id;
END $$;
