-- When a lane should be looked at, now that something is due at in_due: not before its hold ends.
CREATE FUNCTION lane_due(in_due timestamptz, in_hold timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN
    CASE WHEN in_due = 'infinity' THEN NULL ELSE greatest(in_due, in_hold) END;
