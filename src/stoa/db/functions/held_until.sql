-- The end of an order's hold in its stored head; null if there is none, and once the order has moved on or its payment has begun,
-- also if the writer does not know holds. Most orders have none, which a search tells.
CREATE OR REPLACE FUNCTION held_until(status text, payment_status text, head text) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF status <> 'pending' OR payment_status NOT IN ('unpaid', 'failed', 'voided') OR strpos(head, '"expires_at":"') = 0 THEN
        RETURN NULL;
    END IF;
    RETURN member_text(head, 'expires_at')::timestamptz;
END $$;
