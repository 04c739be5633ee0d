-- The head of an order that the previous release wrote, with the payments and refunds as records, and what follows from them. A
-- payment or refund that it made without a record gets one: at in_moment by in_actor, or else when the order was placed. Applied
-- to its own result, it changes nothing. `Figures` in `orders/state.py` computes the same in memory.
CREATE FUNCTION head_with_payments(head text, lines text, in_moment text DEFAULT NULL, in_actor text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    document  json := ('{' || substr(head, 2) || '}')::json;
    digits    integer := scale((document ->> 'total')::numeric);
    minor     numeric := (10::numeric) ^ digits;
    total     bigint := (document ->> 'total')::numeric * minor;
    paid      bigint := (document ->> 'amount_paid')::numeric * minor;
    refunded  bigint := 0;
    recorded  bigint;
    records   text[];
    refunds   integer;
    cancelled boolean := document ->> 'status' = 'cancelled';
    kept      bigint;
    owed      bigint;
    mark      text := document ->> 'payment_status';
    members   json;
BEGIN
    SELECT coalesce(array_agg(r.value::text ORDER BY r.n), '{}'), count(*) FILTER (WHERE r.value ->> 'kind' = 'refund'),
           coalesce(sum((r.value ->> 'amount')::numeric) FILTER (WHERE r.value ->> 'kind' = 'payment'), 0) * minor
      INTO records, refunds, recorded
      FROM json_array_elements(document -> 'payments') WITH ORDINALITY AS r (value, n);
    IF paid > recorded THEN
        records := records || json_build_object(
            'id', cardinality(records) + 1, 'kind', 'payment', 'amount', amount_text(paid - recorded, digits),
            'method', document -> 'payment_method', 'external_id', NULL, 'note', NULL,
            'actor', coalesce(in_actor::json, CASE WHEN document #>> '{source,app_id}' IS NULL THEN '{"type":"operator"}'::json
                ELSE json_build_object('type', 'app', 'app_id', document #> '{source,app_id}') END),
            'created_at', coalesce(in_moment, document ->> 'placed_at'))::text;
    END IF;
    SELECT records || coalesce(array_agg(json_build_object(
               'id', cardinality(records) + r.n - refunds, 'kind', 'refund', 'amount', r.value -> 'amount', 'method', NULL,
               'external_id', NULL, 'note', r.value -> 'note', 'actor', r.value -> 'actor',
               'created_at', r.value -> 'created_at')::text ORDER BY r.n) FILTER (WHERE r.n > refunds), '{}'),
           coalesce(sum((r.value ->> 'amount')::numeric), 0) * minor
      INTO records, refunded
      FROM json_array_elements(document -> 'refunds') WITH ORDINALITY AS r (value, n);
    SELECT CASE WHEN bool_or(l.gone < l.quantity) THEN greatest(0, total - sum(div(l.worth * minor * l.gone, l.quantity)))
           ELSE 0 END
      INTO kept
      FROM (SELECT (e ->> 'total')::numeric AS worth, (e ->> 'quantity')::bigint AS quantity,
                   (e ->> 'returned_quantity')::bigint
                   + CASE WHEN cancelled THEN (e ->> 'quantity')::bigint - (e ->> 'fulfilled_quantity')::bigint ELSE 0 END AS gone
              FROM json_array_elements(lines::json) AS e) l;
    owed := kept - paid + least(refunded, greatest(0, paid - kept));
    members := json_build_object(
        'payment_status', CASE WHEN paid = 0 THEN CASE WHEN owed > 0 AND mark IN ('paid', 'refunded') THEN 'unpaid' ELSE mark END
                               WHEN refunded = paid THEN 'refunded' WHEN refunded > 0 THEN 'partially_refunded'
                               WHEN owed > 0 THEN 'partially_paid' WHEN paid > total THEN 'overpaid' ELSE 'paid' END,
        'amount_due', amount_text(greatest(0, owed), digits), 'balance', amount_text(owed, digits),
        'payments', ('[' || array_to_string(records, ',') || ']')::json);
    RETURN (SELECT string_agg(',' || to_json(m.key)::text || ':' || coalesce(members -> m.key, m.value)::text, '' ORDER BY m.index)
              FROM (SELECT * FROM json_each(document) WITH ORDINALITY AS e (key, value, index)
                     UNION ALL
                    SELECT 'payments', 'null'::json, 9999 WHERE document -> 'payments' IS NULL) m);
END $$;
