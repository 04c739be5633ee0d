-- The end of an order's hold from the text in its document; null once the order has moved on or its payment has begun, also if
-- the writer does not know holds.
CREATE OR REPLACE FUNCTION held_until(status text, payment_status text, expires_at text) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE WHEN status = 'pending' AND payment_status IN ('unpaid', 'failed', 'voided') THEN expires_at::timestamptz END;
END $$;
