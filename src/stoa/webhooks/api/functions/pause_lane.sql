-- Ends the lease of a lane and stops its schedule, after its subscription was paused.
CREATE FUNCTION pause_lane(in_store_id bigint, in_webhook_id bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE lanes SET owner = '', epoch = epoch + 1, lease_until = NULL, due_at = NULL
     WHERE store_id = in_store_id AND webhook_id = in_webhook_id
$$;
