-- The times of the newest payment, refund and shipment in the head of an order; null if there is none. A voided shipment does not
-- count. Columns for filters are derived with it, and the head is parsed once.
CREATE FUNCTION record_dates(head text, OUT paid_at timestamptz, OUT refunded_at timestamptz, OUT shipped_at timestamptz)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    payments  json;
    shipments json;
BEGIN
    -- Inside a text, quotes have backslashes.
    IF strpos(head, '"payments":[]') > 0 AND strpos(head, '"fulfillments":[]') > 0 THEN
        RETURN;
    END IF;
    SELECT r.payments, r.fulfillments INTO payments, shipments
      FROM json_to_record(('{' || substr(head, 2) || '}')::json) AS r (payments json, fulfillments json);
    SELECT max(t.created_at) FILTER (WHERE t.kind = 'payment'), max(t.created_at) FILTER (WHERE t.kind = 'refund')
      INTO paid_at, refunded_at
      FROM json_to_recordset(payments) AS t (kind text, created_at timestamptz);
    shipped_at := (SELECT max(t.shipped_at) FROM json_to_recordset(shipments) AS t (shipped_at timestamptz, voided_at text)
                    WHERE t.voided_at IS NULL);
END $$;
