-- Takes the lane out of whoever's hands and looks at it now, its receiver's past forgotten: after a resume, a new url, an end.
CREATE FUNCTION wake_lane(in_store_id bigint, in_webhook_id bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    b      smallint := (in_store_id % 64)::smallint;
    moment timestamptz := clock_timestamp();
BEGIN
    UPDATE lanes SET owner = '', epoch = epoch + 1, lease_until = NULL, hold_until = NULL, breaker = 'closed', probes = 0,
           failures = 0, window_at = NULL, window_total = 0, window_failed = 0, failing_since = NULL, told = false,
           due_at = CASE WHEN waiting > 0 THEN moment END
     WHERE bucket = b AND webhook_id = in_webhook_id;
    UPDATE pending_deliveries SET due_at = moment
     WHERE bucket = b AND webhook_id = in_webhook_id AND due_at > moment AND due_at < 'infinity';
END $$;
