-- The time of the last shipment in the stored head of an order; null if there is none. A voided shipment does not count.
CREATE OR REPLACE FUNCTION last_shipment(head text) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (SELECT max((f.value ->> 'shipped_at')::timestamptz)
              FROM json_array_elements(('{' || substr(head, 2) || '}')::json -> 'fulfillments') AS f (value)
             WHERE f.value ->> 'voided_at' IS NULL);
END $$;
