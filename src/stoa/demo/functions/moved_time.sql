-- The moment of a column in the past of the sample data, by the step of that story in which another column was written. One before the
-- first step stays. It is a function because Citus refuses other expressions of times when it changes rows.
CREATE FUNCTION moved_time(at timestamptz, written_at timestamptz, real_steps timestamptz[], past_steps timestamptz[])
RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    step integer := width_bucket(written_at, real_steps);
BEGIN
    RETURN coalesce(past_steps[step] + (at - real_steps[step]), at);
END $$;
