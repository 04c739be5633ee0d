-- The failed attempts of the last minute for each subject, in their order, and how many seconds they still count.
CREATE FUNCTION failed_attempts_of(in_subjects text[], OUT failures integer[], OUT seconds_left double precision[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    SELECT array_agg(coalesce(f.failures, 0) ORDER BY wanted.index),
           array_agg(coalesce(60 - extract(epoch FROM now() - f.first_at)::float8, 0) ORDER BY wanted.index)
      INTO failures, seconds_left
      FROM unnest(in_subjects) WITH ORDINALITY AS wanted (subject, index)
           LEFT JOIN failed_attempts f
           ON f.subject = wanted.subject AND f.first_at > now() - interval '60 seconds';
END $$;
