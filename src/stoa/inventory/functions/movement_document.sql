-- A ledger entry as callers see it.
CREATE FUNCTION movement_document(
    id bigint, variant_id bigint, sku text, kind text, location text, delta_on_hand bigint, delta_reserved bigint,
    on_hand_after bigint, reserved_after bigint, reason text, reference text, order_id bigint, actor text,
    request_id text, created_at timestamptz
) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN
    '{"id":' || id || ',"variant_id":' || variant_id || ',"sku":' || json_text(sku) || ',"kind":"' || kind
    || '","location":"' || location || '","delta_on_hand":' || delta_on_hand || ',"delta_reserved":' || delta_reserved
    || ',"on_hand_after":' || on_hand_after || ',"reserved_after":' || reserved_after
    || ',"reason":"' || reason || '","reference":' || json_text(reference)
    || ',"order_id":' || coalesce(order_id::text, 'null') || ',"actor":' || actor
    || ',"request_id":' || json_text(request_id) || ',"created_at":"' || rfc3339(created_at) || '"}';
