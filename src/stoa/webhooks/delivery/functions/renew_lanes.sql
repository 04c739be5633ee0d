-- Tells that the owner of these lanes lives; answers for each whether it is still the owner's. A lane that is locked just
-- now is passed over until the next beat, so that nobody waits for anybody.
CREATE FUNCTION renew_lanes(in_owner text, in_beat interval, l_bucket smallint[], l_webhook bigint[], l_epoch bigint[])
RETURNS boolean[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    held   boolean[] := '{}';
    lane   lanes;
BEGIN
    FOR n IN 1..cardinality(l_bucket) LOOP
        SELECT l.* INTO lane FROM lanes l WHERE l.bucket = l_bucket[n] AND l.webhook_id = l_webhook[n];
        held[n] := FOUND AND lane.owner = in_owner AND lane.epoch = l_epoch[n];
        IF held[n] THEN
            PERFORM 1 FROM lanes l WHERE l.bucket = l_bucket[n] AND l.webhook_id = l_webhook[n]
                AND l.owner = in_owner AND l.epoch = l_epoch[n] FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE lanes l SET due_at = least(moment + in_beat, l.lease_until)
                 WHERE l.bucket = l_bucket[n] AND l.webhook_id = l_webhook[n];
            END IF;
        END IF;
    END LOOP;
    RETURN held;
END $$;
