-- The head of an order's document without what people wrote into it: the reason for its cancellation, the tracking of its
-- fulfillments, the reasons and notes of its
-- refunds, and the notes of its payments.
CREATE FUNCTION head_without_words(head text) RETURNS text LANGUAGE sql STABLE RETURN
    (SELECT string_agg(',' || to_json(m.key)::text || ':' || CASE m.key
                WHEN 'cancel_reason' THEN 'null'
                WHEN 'fulfillments' THEN list_cleared(m.value::text, '{tracking}', 'null')
                WHEN 'refunds' THEN list_cleared(m.value::text, '{reason,note}', 'null')
                WHEN 'payments' THEN list_cleared(m.value::text, '{note}', 'null')
                ELSE m.value::text END, '' ORDER BY m.index)
       FROM json_each(('{' || substr(head, 2) || '}')::json) WITH ORDINALITY AS m (key, value, index));
