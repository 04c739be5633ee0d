-- Takes up to in_limit lanes that are due, bucket by bucket in the order given.
CREATE FUNCTION claim_lanes(in_buckets smallint[], in_owner text, in_limit integer, in_beat interval, in_lease interval)
RETURNS SETOF lanes LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT d.bucket, d.webhook_id
          FROM unnest(in_buckets) WITH ORDINALITY AS b (bucket, n) CROSS JOIN LATERAL (
               SELECT x.bucket, x.webhook_id FROM lanes x WHERE x.bucket = b.bucket AND x.due_at <= moment
                ORDER BY x.due_at LIMIT in_limit FOR UPDATE SKIP LOCKED) d
         LIMIT in_limit)
    UPDATE lanes l
       SET owner = in_owner, epoch = l.epoch + 1, lease_until = moment + in_lease,
           due_at = moment + least(in_beat, in_lease)
      FROM due WHERE l.bucket = due.bucket AND l.webhook_id = due.webhook_id
    RETURNING l.*;
END $$;
