-- Over all stores: a worker reads the subscriptions of all lanes that it leases.
CREATE FUNCTION event_subscriptions_of_lanes(in_stores bigint[], in_webhooks bigint[])
RETURNS TABLE (store_id bigint, id bigint, app_id bigint, events text[], filter text, changed text[], skip_own boolean, ordered boolean,
               granted_scopes text[], of_app boolean, url text, payload text, fields text[], sealed_headers bytea,
               sealed_secret bytea, sealed_old_secret bytea, status text, max_in_flight integer, rate_per_s integer,
               skip_before timestamptz, ended boolean, suspended boolean, store_handle text, store_name text, currency text,
               timezone text, locale text, managed boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.* FROM unnest(in_stores, in_webhooks) AS lane (store_id, webhook_id)
           JOIN event_subscriptions s ON s.store_id = lane.store_id AND s.id = lane.webhook_id
     WHERE s.store_id = ANY (in_stores);  -- a cluster asks only the nodes of these
END $$;
