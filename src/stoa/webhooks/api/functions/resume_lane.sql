-- Ends the lease of a lane, resets the health of its receiver and makes its deliveries due now: after a resume, a new URL or
-- the end of its subscription.
CREATE FUNCTION resume_lane(in_store_id bigint, in_webhook_id bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    UPDATE lanes SET owner = '', epoch = epoch + 1, lease_until = NULL, hold_until = NULL, breaker = 'closed', probes = 0,
           failures = 0, window_at = NULL, window_total = 0, window_failed = 0, failing_since = NULL,
           failing_event_sent = false, due_at = CASE WHEN waiting > 0 THEN moment END
     WHERE store_id = in_store_id AND webhook_id = in_webhook_id;
    UPDATE pending_deliveries SET due_at = moment
     WHERE store_id = in_store_id AND webhook_id = in_webhook_id AND due_at > moment AND due_at < 'infinity';
END $$;
