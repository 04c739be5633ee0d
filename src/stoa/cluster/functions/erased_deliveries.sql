-- Over all stores: a worker asks about all its lanes at once.
-- Returns the pending deliveries of these lanes that an erasure has marked, because their events were about the person, store by store.
CREATE FUNCTION erased_deliveries(in_lanes json) RETURNS TABLE (webhook_id bigint, sequence bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    in_store_id bigint;
    webhooks    bigint[];
BEGIN
    FOR in_store_id, webhooks IN
        SELECT t.store_id, array_agg(t.webhook_id) FROM json_to_recordset(in_lanes) AS t (store_id bigint, webhook_id bigint)
         GROUP BY t.store_id ORDER BY t.store_id
    LOOP
        RETURN QUERY
        SELECT p.webhook_id, p.sequence
          FROM unnest(webhooks) AS t (webhook_id)
               JOIN pending_deliveries p ON p.store_id = in_store_id AND p.webhook_id = t.webhook_id
         WHERE p.due_at = '-infinity';
    END LOOP;
END $$;
