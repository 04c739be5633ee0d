-- Stores new orders (o_) that were decided elsewhere, with their lines (l_), a timeline entry for each (o_entry) and their
-- events (e_). What they take from stock is given for the ledger by line (m_, m_later is what later ones take of the same
-- variant), for events by order and variant (s_), and summed for variants (v_) and products (p_). `place` counts orders of
-- this call from 1. The customers are held before the orders refer to them, and stock comes last, because everybody
-- waits for it. Where it is not enough, `short` names the variants, and the caller must roll back.
CREATE FUNCTION place_orders(
    in_store_id bigint, in_moment timestamptz,
    o_id bigint[], o_number bigint[], o_external_id text[], o_status text[], o_payment_status text[], o_customer_id bigint[],
    o_email text[], o_phone text[], o_total bigint[], o_placed_at timestamptz[], o_duplicate_of bigint[],
    o_suspected_duplicates integer[], o_basket bytea[], o_address bytea[], o_head text[], o_lines text[], o_person text[],
    o_terms text[], o_actor text[], o_author text[], o_request_id text[], o_entry text[],
    c_id bigint[], c_orders integer[], c_spent bigint[], c_last_order_at timestamptz[],
    l_place integer[], l_id bigint[], l_variant bigint[], l_sku text[], l_quantity integer[],
    e_place integer[], e_id text[], e_type text[], e_changes text[],
    m_place integer[], m_variant bigint[], m_units bigint[], m_later bigint[], m_key text[],
    s_place integer[], s_variant bigint[], s_units bigint[], s_later bigint[], s_steps integer[],
    v_id bigint[], v_units bigint[], v_steps integer[], p_id bigint[], p_units bigint[],
    OUT short bigint[], OUT available bigint[]
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    times  text := times_tail(in_moment, in_moment, 1) || '}';
    moment timestamptz := clock_timestamp();
    known  bigint;
    moved  bigint[];
BEGIN
    IF c_id <> '{}' THEN
        SELECT count(*) INTO known FROM (
            SELECT 1 FROM customers c WHERE c.store_id = in_store_id AND c.id = ANY (c_id) AND c.deleted_at IS NULL
             ORDER BY c.id FOR NO KEY UPDATE) held;
        IF known < cardinality(c_id) THEN
            RAISE serialization_failure USING MESSAGE = 'a customer was erased while the order was made';
        END IF;
        moment := clock_timestamp();  -- after the wait, so that a row's times never run backwards
        UPDATE customers c
           SET orders_count = c.orders_count + t.orders, total_spent = c.total_spent + t.spent,
               last_order_at = greatest(c.last_order_at, t.last_order_at), updated_at = greatest(c.updated_at, moment),
               version = c.version + 1
          FROM unnest(c_id, c_orders, c_spent, c_last_order_at) AS t (id, orders, spent, last_order_at)
         WHERE c.store_id = in_store_id AND c.id = t.id AND (t.orders <> 0 OR t.spent <> 0);
    END IF;
    INSERT INTO orders (store_id, id, number, external_id, status, payment_status, fulfillment_status, customer_id,
                        email, phone, total, placed_at, duplicate_of, suspected_duplicates, basket, address,
                        created_at, updated_at, head, lines, person, terms)
    SELECT in_store_id, t.id, t.number, t.external_id, t.status, t.payment_status, 'unfulfilled', t.customer_id,
           t.email, t.phone, t.total, t.placed_at, t.duplicate_of, t.suspected_duplicates, t.basket, t.address,
           in_moment, in_moment, t.head, t.lines, t.person, t.terms::tsvector
      FROM unnest(o_id, o_number, o_external_id, o_status, o_payment_status, o_customer_id, o_email, o_phone, o_total,
                  o_placed_at, o_duplicate_of, o_suspected_duplicates, o_basket, o_address, o_head, o_lines, o_person, o_terms)
           AS t (id, number, external_id, status, payment_status, customer_id, email, phone, total,
                 placed_at, duplicate_of, suspected_duplicates, basket, address, head, lines, person, terms)
     ORDER BY t.external_id;  -- whoever waits for one that another has just given does so in one order
    INSERT INTO row_counts (store_id, resource, delta) VALUES (in_store_id, 'orders', cardinality(o_id));
    INSERT INTO order_lines (store_id, order_id, id, variant_id, sku, quantity, fulfilled_quantity, returned_quantity)
    SELECT in_store_id, o_id[t.place], t.id, t.variant_id, t.sku, t.quantity, 0, 0
      FROM unnest(l_place, l_id, l_variant, l_sku, l_quantity) AS t (place, id, variant_id, sku, quantity);
    INSERT INTO order_comments (store_id, order_id, type, visibility, body, author, changes, created_at)
    SELECT in_store_id, t.id, 'system', 'internal', t.entry, t.author, '{}', in_moment
      FROM unnest(o_id, o_entry, o_author) AS t (id, entry, author);

    IF v_id <> '{}' THEN
        -- Whoever changes a product, its variants or their stock holds the product's row; several in the order of ids.
        PERFORM 1 FROM products p WHERE p.store_id = in_store_id AND p.id = ANY (p_id) ORDER BY p.id FOR NO KEY UPDATE;
        moment := clock_timestamp();
        WITH taken AS (
            UPDATE variants v
               SET reserved = v.reserved + t.units, updated_at = moment, version = v.version + t.steps
              FROM unnest(v_id, v_units, v_steps) AS t (id, units, steps)
             WHERE v.store_id = in_store_id AND v.id = t.id AND v.deleted_at IS NULL
               AND (v.allow_backorder OR NOT v.track_inventory OR v.on_hand >= v.reserved + t.units)
            RETURNING v.id)
        SELECT array_agg(taken.id) INTO moved FROM taken;
        IF moved IS NULL OR cardinality(moved) < cardinality(v_id) THEN
            SELECT array_agg(t.id), array_agg(coalesce(v.on_hand - v.reserved, 0)) INTO short, available
              FROM unnest(v_id) AS t (id)
                   LEFT JOIN variants v ON v.store_id = in_store_id AND v.id = t.id AND v.deleted_at IS NULL
             WHERE moved IS NULL OR NOT t.id = ANY (moved);
            RETURN;
        END IF;
        INSERT INTO stock_movements (store_id, variant_id, product_id, sku, kind, delta_on_hand, delta_reserved,
                                     on_hand_after, reserved_after, reason, reference, order_id, movement_key, actor,
                                     request_id, created_at)
        SELECT in_store_id, v.id, v.product_id, v.sku, 'reserve', 0, t.units, v.on_hand, v.reserved - t.later, 'order',
               o_number[t.place]::text, o_id[t.place], t.key, o_actor[t.place], o_request_id[t.place], moment
          FROM unnest(m_place, m_variant, m_units, m_later, m_key) WITH ORDINALITY AS t (place, variant, units, later, key, n)
               JOIN variants v ON v.store_id = in_store_id AND v.id = t.variant
         ORDER BY t.n;
        UPDATE products p
           SET reserved = p.reserved + t.units, updated_at = moment, version = p.version + 1,
               in_stock = (
                   SELECT true FROM variants v
                    WHERE v.store_id = in_store_id AND v.product_id = t.id AND v.deleted_at IS NULL
                      AND (v.allow_backorder OR NOT v.track_inventory OR v.on_hand > v.reserved) LIMIT 1) IS TRUE
          FROM unnest(p_id, p_units) AS t (id, units)
         WHERE p.store_id = in_store_id AND p.id = t.id;
    END IF;

    -- First what is told of an order, then of the variants that it took from, each as if it had come alone.
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data,
                        request_id, created_at)
    SELECT in_store_id, e.id, e.type, e.resource_type, e.resource_id, e.version, o_actor[e.place], e.changes, e.data,
           o_request_id[e.place], moment
      FROM (SELECT t.place, 0 AS variant_id, t.n, t.id, t.type, 'order' AS resource_type, o_id[t.place] AS resource_id,
                   1 AS version, t.changes,
                   '{"id":' || o_id[t.place] || o_head[t.place] || ',"line_items":' || o_lines[t.place] || o_person[t.place]
                   || ',"suspected_duplicates_count":' || o_suspected_duplicates[t.place] || times AS data
              FROM unnest(e_place, e_id, e_type, e_changes) WITH ORDINALITY AS t (place, id, type, changes, n)
             UNION ALL
            SELECT t.place, v.id, k.n, new_event_id(), k.type, 'variant', v.id, v.version - t.steps,
                   '{"available":[' || a.now + t.units || ',' || a.now || ']}',
                   variant_document(v.id, v.product_id, v.head, CASE WHEN t.steps = 0 THEN v.tail
                       ELSE stock_tail(v.on_hand, v.reserved - t.later)
                            || times_tail(v.created_at, moment, v.version - t.steps) || '}' END)
              FROM unnest(s_place, s_variant, s_units, s_later, s_steps) AS t (place, variant, units, later, steps)
                   JOIN variants v ON v.store_id = in_store_id AND v.id = t.variant
                   CROSS JOIN LATERAL (SELECT v.on_hand - v.reserved + t.later) AS a (now)
                   CROSS JOIN LATERAL (VALUES
                       (1, 'product.inventory_changed', true),
                       (2, 'product.low_stock', v.track_inventory AND a.now + t.units > v.low_stock_threshold
                                                AND a.now <= v.low_stock_threshold),
                       (3, 'product.out_of_stock', v.track_inventory AND a.now + t.units > 0 AND a.now <= 0)
                   ) AS k (n, type, happened)
             WHERE k.happened) e
     ORDER BY e.place, e.variant_id, e.n;
END $$;
