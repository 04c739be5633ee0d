-- What must be true of a row of customers; valid_order says why it is a function.
CREATE OR REPLACE FUNCTION valid_customer(status text, deleted_at timestamptz, email_consent text, sms_consent text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN status IN ('active', 'disabled', 'erased') AND (status = 'erased') = (deleted_at IS NOT NULL)
       AND email_consent IN ('subscribed', 'unsubscribed', 'pending') AND sms_consent IN ('subscribed', 'unsubscribed', 'pending');
END $$;
