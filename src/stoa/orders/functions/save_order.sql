-- Stores an order that was decided elsewhere (o_), with its lines (l_, null when they stay), timeline entries (c_),
-- pairs of suspected duplicates (d_), events (e_) and stock movements (m_). n_ are other orders whose count of suspected
-- duplicates moves; the caller holds their rows. r_ is what the customer's count and sum move by. The customer is held
-- before the order refers to it, and stock comes last, because everybody waits for it. Where a movement is not `updated`,
-- the caller must roll back.
CREATE FUNCTION save_order(
    in_store_id bigint, in_actor text, in_request_id text, in_new boolean,
    o_id bigint, o_number bigint, o_external_id text, o_status text, o_payment_status text, o_fulfillment_status text,
    o_customer_id bigint, o_email text, o_phone text, o_total bigint, o_placed_at timestamptz, o_duplicate_of bigint,
    o_suspected_duplicates integer, o_basket bytea, o_address bytea, o_head text, o_lines text, o_person text, o_terms text,
    r_orders integer, r_spent bigint, r_last_order_at timestamptz,
    l_id bigint[], l_variant bigint[], l_sku text[], l_quantity integer[], l_fulfilled integer[], l_returned integer[],
    c_type text[], c_body text[], c_changes text[], c_author text,
    d_other bigint[], d_score integer[], d_reasons text[], d_apart bigint[],
    n_id bigint[], n_delta integer, n_type text,
    e_id text[], e_type text[], e_changes text[],
    m_variant bigint[], m_kind text[], m_on_hand bigint[], m_reserved bigint[], m_key text[],
    OUT version integer, OUT doc bytea, OUT outcomes text[], OUT available bigint[]
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    stored orders;
    shown  text;
    many   integer := cardinality(m_variant);
BEGIN
    IF o_customer_id IS NOT NULL THEN
        IF r_orders <> 0 OR r_spent <> 0 THEN
            UPDATE customers c
               SET orders_count = c.orders_count + r_orders, total_spent = c.total_spent + r_spent,
                   last_order_at = greatest(c.last_order_at, r_last_order_at), updated_at = greatest(c.updated_at, moment),
                   version = c.version + 1
             WHERE c.store_id = in_store_id AND c.id = o_customer_id AND (c.deleted_at IS NULL OR NOT in_new);
        ELSIF in_new THEN
            PERFORM 1 FROM customers c
              WHERE c.store_id = in_store_id AND c.id = o_customer_id AND c.deleted_at IS NULL FOR KEY SHARE;
        END IF;
        IF in_new AND NOT FOUND THEN
            RAISE serialization_failure USING MESSAGE = 'the customer was erased while the order was made';
        END IF;
    END IF;
    moment := clock_timestamp();  -- after the wait for the customer, so that a row's times never run backwards
    IF in_new THEN
        INSERT INTO orders (store_id, id, number, external_id, status, payment_status, fulfillment_status, customer_id,
                            email, phone, total, placed_at, duplicate_of, suspected_duplicates, basket, address,
                            created_at, updated_at, head, lines, person, terms)
        VALUES (in_store_id, o_id, o_number, o_external_id, o_status, o_payment_status, o_fulfillment_status, o_customer_id,
                o_email, o_phone, o_total, o_placed_at, o_duplicate_of, o_suspected_duplicates, o_basket, o_address,
                moment, moment, o_head, o_lines, o_person, o_terms::tsvector)
        RETURNING * INTO stored;
        INSERT INTO row_counts (store_id, resource, delta) VALUES (in_store_id, 'orders', 1);
    ELSE
        UPDATE orders o
           SET external_id = o_external_id, status = o_status, payment_status = o_payment_status,
               fulfillment_status = o_fulfillment_status, email = o_email, phone = o_phone, total = o_total,
               suspected_duplicates = o_suspected_duplicates, basket = o_basket, address = o_address, head = o_head,
               lines = o_lines, person = o_person, terms = o_terms::tsvector, updated_at = moment, version = o.version + 1
         WHERE o.store_id = in_store_id AND o.id = o_id
        RETURNING * INTO stored;
    END IF;
    shown := order_document(stored);
    IF l_id IS NOT NULL THEN
        IF NOT in_new THEN
            DELETE FROM order_lines l WHERE l.store_id = in_store_id AND l.order_id = o_id AND NOT l.id = ANY (l_id);
        END IF;
        INSERT INTO order_lines (store_id, order_id, id, variant_id, sku, quantity, fulfilled_quantity, returned_quantity)
        SELECT in_store_id, o_id, t.id, t.variant_id, t.sku, t.quantity, t.fulfilled, t.returned
          FROM unnest(l_id, l_variant, l_sku, l_quantity, l_fulfilled, l_returned)
               AS t (id, variant_id, sku, quantity, fulfilled, returned)
            ON CONFLICT ON CONSTRAINT order_lines_pkey DO UPDATE
           SET quantity = excluded.quantity, fulfilled_quantity = excluded.fulfilled_quantity,
               returned_quantity = excluded.returned_quantity;
    END IF;
    IF d_other <> '{}' THEN
        INSERT INTO order_duplicates (store_id, order_id, other_id, score, reasons, seconds_apart)
        SELECT in_store_id, o_id, t.other, t.score, t.reasons, t.apart
          FROM unnest(d_other, d_score, d_reasons, d_apart) AS t (other, score, reasons, apart);
    END IF;
    INSERT INTO order_comments (store_id, order_id, type, visibility, body, author, changes, created_at)
    SELECT in_store_id, o_id, t.type, 'internal', t.body, c_author, t.changes, moment
      FROM unnest(c_type, c_body, c_changes) AS t (type, body, changes);
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
    SELECT in_store_id, t.id, t.type, 'order', stored.id, stored.version, in_actor, t.changes, shown, in_request_id
      FROM unnest(e_id, e_type, e_changes) WITH ORDINALITY AS t (id, type, changes, n) ORDER BY t.n;
    IF n_id <> '{}' THEN
        UPDATE orders o
           SET suspected_duplicates = o.suspected_duplicates + n_delta, updated_at = moment, version = o.version + 1
          FROM unnest(n_id) AS t (id)
         WHERE o.store_id = in_store_id AND o.id = t.id;
        INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
        SELECT in_store_id, new_event_id(), n_type, 'order', o.id, o.version, in_actor,
               '{"suspected_duplicates_count":[' || o.suspected_duplicates - n_delta || ',' || o.suspected_duplicates || ']}',
               order_document(o), in_request_id
          FROM unnest(n_id) AS t (id) JOIN orders o ON o.store_id = in_store_id AND o.id = t.id ORDER BY o.id;
    END IF;
    IF many > 0 THEN
        SELECT array_agg(m.outcome), array_agg(coalesce(m.on_hand - m.reserved, 0)) INTO outcomes, available
          FROM move_stock(in_store_id, true, in_actor, in_request_id, (
                   SELECT json_agg(json_build_object(
                              'variant_id', t.variant, 'kind', t.kind, 'absolute', false, 'on_hand', t.on_hand,
                              'reserved', t.reserved, 'reason', CASE t.kind WHEN 'restock' THEN 'return' ELSE 'order' END,
                              'reference', o_number, 'order_id', o_id, 'movement_key', t.key) ORDER BY t.n)
                     FROM unnest(m_variant, m_kind, m_on_hand, m_reserved, m_key) WITH ORDINALITY
                          AS t (variant, kind, on_hand, reserved, key, n)), false) m;
    END IF;
    version := stored.version;
    doc := convert_to(shown, 'UTF8');
END $$;
