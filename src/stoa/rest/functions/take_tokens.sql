-- Takes up to `wanted` tokens from a rate limit bucket and returns how many were granted. The row lock makes it exact across
-- workers. A bucket in debt, with fewer than 0 tokens, grants none. A bucket that was refilled in the future, before the clock was set back, is refilled from now on.
CREATE FUNCTION take_tokens(
    in_store_id bigint, in_app_id bigint, in_purpose text, wanted double precision, burst double precision, refill double precision,
    OUT granted double precision, OUT remaining double precision
) LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    future timestamptz := moment + interval '10 seconds';
BEGIN
    LOOP
        UPDATE rate_buckets b
           SET level = least(burst, b.tokens + refill * greatest(0, date_part('epoch', moment - b.refilled_at))),
               tokens = least(burst, b.tokens + refill * greatest(0, date_part('epoch', moment - b.refilled_at)))
                      - least(wanted, greatest(0, floor(
                        least(burst, b.tokens + refill * greatest(0, date_part('epoch', moment - b.refilled_at)))))),
               refilled_at = CASE WHEN b.refilled_at > future THEN moment
                                  ELSE greatest(moment, b.refilled_at) END
         WHERE b.store_id = in_store_id AND b.app_id = in_app_id AND b.purpose = in_purpose
        RETURNING b.level - b.tokens, b.tokens INTO granted, remaining;
        EXIT WHEN FOUND;
        INSERT INTO rate_buckets (store_id, app_id, purpose, level, tokens, refilled_at)
        VALUES (in_store_id, in_app_id, in_purpose, burst, burst, moment) ON CONFLICT DO NOTHING;
    END LOOP;
END $$;
