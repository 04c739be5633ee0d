-- Notes which orders a new one may double (d_), and tells of each of those, whose rows the caller holds.
CREATE FUNCTION suspect_order(
    in_store_id bigint, in_actor text, in_request_id text, in_order_id bigint,
    d_other bigint[], d_score integer[], d_reasons text[], d_apart bigint[]
) RETURNS integer LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    INSERT INTO order_duplicates (store_id, order_id, other_id, score, reasons, seconds_apart)
    SELECT in_store_id, in_order_id, t.other, t.score, t.reasons, t.apart
      FROM unnest(d_other, d_score, d_reasons, d_apart) AS t (other, score, reasons, apart);
    UPDATE orders o
       SET suspected_duplicates = o.suspected_duplicates + 1, updated_at = clock_timestamp(), version = o.version + 1
      FROM unnest(d_other) AS t (id)
     WHERE o.store_id = in_store_id AND o.id = t.id;
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
    SELECT in_store_id, new_event_id(), 'order.duplicate_suspected', 'order', o.id, o.version, in_actor,
           '{"suspected_duplicates_count":[' || o.suspected_duplicates - 1 || ',' || o.suspected_duplicates || ']}',
           order_document(o), in_request_id
      FROM unnest(d_other) AS t (id) JOIN orders o ON o.store_id = in_store_id AND o.id = t.id ORDER BY o.id;
    RETURN cardinality(d_other);
END $$;
