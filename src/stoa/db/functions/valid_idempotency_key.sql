-- What must be true of a row of idempotency_keys; valid_order says why it is a function.
CREATE OR REPLACE FUNCTION valid_idempotency_key(subject_type text, subject_id bigint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE WHEN subject_type IN ('customer', 'order') THEN subject_id IS NOT NULL
                ELSE subject_id IS NULL AND (subject_type IS NULL OR subject_type = 'contact') END;
END $$;
