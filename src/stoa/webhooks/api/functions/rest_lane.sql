-- Takes the lane out of whoever's hands and leaves it alone: after a pause.
CREATE FUNCTION rest_lane(in_store_id bigint, in_webhook_id bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE lanes SET owner = '', epoch = epoch + 1, lease_until = NULL, due_at = NULL
     WHERE bucket = (in_store_id % 64)::smallint AND webhook_id = in_webhook_id
$$;
