-- Stores new orders (in_orders) with their lines, timeline entries and events, reserves their stock, and records which other
-- orders they are suspected to duplicate (in_suspects; the caller has locked those that were stored before). Ids ascend in
-- the order in which the orders count as placed: ledger rows, versions and events are those that one order after the other
-- would have left. Customers are locked before orders refer to them. Stock comes last, because every order waits for it; if
-- it is insufficient, `short` names the variants and `available` their units, and the caller must roll back.
--
-- A line reserves its units at the default location, except those that in_allocations reserves elsewhere. The caller has
-- locked the products of these (lock_levels) and knows that the units are there.
CREATE FUNCTION place_orders(
    in_store_id bigint, in_moment timestamptz, in_orders json, in_placements json, in_lines json, in_events json,
    in_suspects json, in_allocations json, OUT short bigint[], OUT available bigint[]
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    times         text := times_tail(in_moment, in_moment, 1) || '}';
    moment        timestamptz := clock_timestamp();
    customers     bigint[];
    locked        bigint;
    stored        bigint;
    -- The placements, read once from in_placements: array_position(placed, order_id) is the index of an order in each array.
    placed        bigint[];
    numbers       bigint[];
    entries       text[];
    authors       text[];
    actors        text[];
    requests      text[];
    -- The lines that reserve stock, read once from in_lines for the statements below.
    line_orders   bigint[];
    line_ids      bigint[];
    line_variants bigint[];
    line_products bigint[];
    line_units    bigint[];
    line_others   bigint[];  -- the units of a line that are reserved at locations other than the default
    -- The rows of the ledger: one for each line and location. They are the lines unless there are allocations.
    row_lines     bigint[];
    row_orders    bigint[];
    row_variants  bigint[];
    row_units     bigint[];
    row_locations text[];
BEGIN
    SELECT array_agg(DISTINCT t.customer_id) FILTER (WHERE t.customer_id IS NOT NULL), array_agg(t.order_id),
           array_agg(t.number), array_agg(t.entry), array_agg(t.author), array_agg(t.actor), array_agg(t.request_id)
      INTO customers, placed, numbers, entries, authors, actors, requests
      FROM json_to_recordset(in_placements) AS t (
               customer_id bigint, order_id bigint, number bigint, entry text, author text, actor text, request_id text);
    IF customers IS NOT NULL THEN
        SELECT count(*) INTO locked FROM (
            SELECT 1 FROM customers c WHERE c.store_id = in_store_id AND c.id = ANY (customers) AND c.deleted_at IS NULL
             ORDER BY c.id FOR NO KEY UPDATE) held;
        IF locked < cardinality(customers) THEN
            RAISE serialization_failure USING MESSAGE = 'a customer was erased while the order was placed';
        END IF;
        moment := clock_timestamp();  -- after the wait for the locks, so that a row's times never run backwards
        UPDATE customers c
           SET orders_count = c.orders_count + t.orders, total_spent = c.total_spent + t.spent,
               last_order_at = greatest(c.last_order_at, t.last_order_at), updated_at = greatest(c.updated_at, moment),
               version = c.version + t.changes
          FROM (SELECT p.customer_id, sum(p.customer_orders)::integer AS orders, sum(p.customer_spent)::bigint AS spent,
                       max(p.placed_at) FILTER (WHERE p.customer_orders > 0) AS last_order_at, count(*)::integer AS changes
                  FROM json_to_recordset(in_placements)
                       AS p (customer_id bigint, customer_orders integer, customer_spent bigint, placed_at timestamptz)
                 WHERE p.customer_orders <> 0 OR p.customer_spent <> 0
                 GROUP BY p.customer_id) t
         WHERE c.store_id = in_store_id AND c.id = t.customer_id;
    END IF;
    INSERT INTO orders (store_id, id, number, external_id, status, payment_status, fulfillment_status, customer_id,
                        email, phone, total, placed_at, duplicate_of, suspected_duplicates, basket, address,
                        created_at, updated_at, head, lines, person, edition, terms, paid_at, refunded_at,
                        shipped_at, expires_at)
    SELECT in_store_id, t.id, t.number, t.external_id, t.status, t.payment_status,
           coalesce(t.fulfillment_status, 'unfulfilled'), t.customer_id,
           t.email, t.phone, t.total, t.placed_at, t.duplicate_of, t.suspected_duplicates, t.basket, t.address,
           in_moment, in_moment, t.head, t.lines, t.person, coalesce(t.edition, 1), t.terms,
           d.paid_at, d.refunded_at, d.shipped_at,
           CASE WHEN strpos(t.head, '"expires_at":"') > 0  -- most orders are not held
                THEN held_until(t.status, t.payment_status, member_text(t.head, 'expires_at')) END
      FROM json_to_recordset(in_orders) AS t (
               id bigint, number bigint, external_id text, status text, payment_status text, customer_id bigint, email text,
               phone text, total bigint, placed_at timestamptz, duplicate_of bigint, suspected_duplicates integer,
               basket bytea, address bytea, head text, lines text, person text, edition smallint, terms tsvector,
               fulfillment_status text)
           CROSS JOIN LATERAL record_dates(order_purchase(t.head, t.lines, coalesce(t.edition, 1::smallint))) AS d
     ORDER BY t.external_id, t.number;  -- transactions that wait for one another's external ids and numbers do so in one order
    GET DIAGNOSTICS stored = ROW_COUNT;
    PERFORM count_rows(in_store_id, 'orders', stored);
    INSERT INTO order_lines (store_id, order_id, id, variant_id, sku, quantity, fulfilled_quantity, returned_quantity)
    SELECT in_store_id, t.order_id, t.id, t.variant_id, t.sku, t.quantity, coalesce(t.fulfilled_quantity, 0),
           coalesce(t.returned_quantity, 0)
      FROM json_to_recordset(in_lines) AS t (
               order_id bigint, id bigint, variant_id bigint, sku text, quantity integer, fulfilled_quantity integer,
               returned_quantity integer);
    INSERT INTO order_comments (store_id, order_id, type, visibility, body, author, changes, created_at)
    SELECT in_store_id, t.order_id, 'system', 'internal', t.entry, t.author, '{}', in_moment
      FROM unnest(placed, entries, authors) AS t (order_id, entry, author) ORDER BY t.order_id;

    SELECT array_agg(t.order_id), array_agg(t.id), array_agg(t.variant_id), array_agg(t.product_id), array_agg(t.reserved),
           array_agg(t.elsewhere)
      INTO line_orders, line_ids, line_variants, line_products, line_units, line_others
      FROM json_to_recordset(in_lines)
           AS t (order_id bigint, id bigint, variant_id bigint, product_id bigint, reserved bigint, elsewhere bigint)
     WHERE t.reserved > 0;
    IF line_ids IS NOT NULL THEN
        row_lines := line_ids;
        row_orders := line_orders;
        row_variants := line_variants;
        row_units := line_units;
        -- Every change of a product, its variants or their stock locks the product's row, several in the order of ids.
        PERFORM 1 FROM products p WHERE p.store_id = in_store_id AND p.id = ANY (line_products)
          ORDER BY p.id FOR NO KEY UPDATE;
        moment := clock_timestamp();
        WITH wanted AS (
            SELECT l.variant_id, sum(l.units)::bigint AS units, sum(l.others)::bigint AS others,
                   count(DISTINCT l.order_id)::integer AS orders
              FROM unnest(line_orders, line_variants, line_units, line_others) AS l (order_id, variant_id, units, others)
             GROUP BY l.variant_id),
        taken AS (
            UPDATE variants v
               SET reserved = v.reserved + w.units, other_reserved = v.other_reserved + w.others, updated_at = moment,
                   version = v.version + w.orders
              FROM wanted w
             WHERE v.store_id = in_store_id AND v.id = w.variant_id AND v.deleted_at IS NULL
               AND (has_unlimited_stock(v.track_inventory, v.allow_backorder)
                    OR v.on_hand - v.other_on_hand >= v.reserved - v.other_reserved + w.units - w.others)
            RETURNING v.id)
        SELECT array_agg(w.variant_id) INTO short FROM wanted w WHERE w.variant_id NOT IN (SELECT t.id FROM taken t);
        IF short IS NOT NULL THEN
            available := ARRAY(SELECT coalesce(v.on_hand - v.reserved, 0)
                                 FROM unnest(short) WITH ORDINALITY AS s (id, n)
                                      LEFT JOIN variants v
                                        ON v.store_id = in_store_id AND v.id = s.id AND v.deleted_at IS NULL
                                ORDER BY s.n);
            RETURN;
        END IF;
        IF json_array_length(in_allocations) > 0 THEN
            UPDATE stock_levels s SET reserved = s.reserved + t.units
              FROM (SELECT l.variant_id, a.location, sum(a.units)::bigint AS units
                      FROM json_to_recordset(in_allocations) AS a (line_id bigint, location text, units bigint)
                           JOIN unnest(line_ids, line_variants) AS l (id, variant_id) ON l.id = a.line_id
                     GROUP BY l.variant_id, a.location) t
             WHERE s.store_id = in_store_id AND s.variant_id = t.variant_id AND s.location = t.location;
            INSERT INTO order_allocations (store_id, order_id, line_id, location, reserved, shipped)
            SELECT in_store_id, l.order_id, l.id, a.location, a.units, 0
              FROM json_to_recordset(in_allocations) AS a (line_id bigint, location text, units bigint)
                   JOIN unnest(line_ids, line_orders) AS l (id, order_id) ON l.id = a.line_id;
            SELECT array_agg(r.line_id), array_agg(r.order_id), array_agg(r.variant_id), array_agg(r.units), array_agg(r.location)
              INTO row_lines, row_orders, row_variants, row_units, row_locations
              FROM (SELECT l.id AS line_id, l.order_id, l.variant_id, a.units, a.location
                      FROM json_to_recordset(in_allocations) AS a (line_id bigint, location text, units bigint)
                           JOIN unnest(line_ids, line_orders, line_variants) AS l (id, order_id, variant_id) ON l.id = a.line_id
                     UNION ALL
                    SELECT l.id, l.order_id, l.variant_id, l.units - l.others, 'default'
                      FROM unnest(line_ids, line_orders, line_variants, line_units, line_others)
                           AS l (id, order_id, variant_id, units, others)
                     WHERE l.units > l.others) r;
        END IF;
        INSERT INTO stock_movements (store_id, variant_id, product_id, sku, kind, location, delta_on_hand, delta_reserved,
                                     on_hand_after, reserved_after, reason, reference, order_id, movement_key, actor,
                                     request_id, created_at)
        SELECT in_store_id, v.id, v.product_id, v.sku, 'reserve', coalesce(l.location, 'default'), 0, l.units, v.on_hand,
               v.reserved - l.later, 'order', numbers[l.n]::text, l.order_id,
               'order/' || l.order_id || '/' || l.id || '/reserve/1' || coalesce('/' || l.location, ''),
               actors[l.n], requests[l.n], moment
          FROM (SELECT array_position(placed, t.order_id) AS n, t.order_id, t.id, t.variant_id, t.units, t.location,
                       (sum(t.units) OVER (PARTITION BY t.variant_id ORDER BY t.id DESC, t.location DESC) - t.units)::bigint AS later
                  FROM unnest(row_orders, row_lines, row_variants, row_units, row_locations)
                       AS t (order_id, id, variant_id, units, location)) l
               JOIN variants v ON v.store_id = in_store_id AND v.id = l.variant_id
         ORDER BY l.id, l.location;
        UPDATE products p
           SET reserved = p.reserved + t.units, updated_at = moment, version = p.version + t.orders,
               in_stock = (
                   SELECT true FROM variants v
                    WHERE v.store_id = in_store_id AND v.product_id = t.product_id AND v.deleted_at IS NULL
                      AND is_sellable(v.track_inventory, v.allow_backorder, v.on_hand, v.reserved) LIMIT 1) IS TRUE
          FROM (SELECT l.product_id, sum(l.units)::bigint AS units, count(DISTINCT l.order_id)::integer AS orders
                  FROM unnest(line_orders, line_products, line_units) AS l (order_id, product_id, units)
                 GROUP BY l.product_id) t
         WHERE p.store_id = in_store_id AND p.id = t.product_id;
    END IF;

    IF json_array_length(in_suspects) > 0 THEN
        INSERT INTO order_duplicates (store_id, order_id, other_id, score, reasons, seconds_apart)
        SELECT in_store_id, t.order_id, t.other_id, t.score, t.reasons, t.seconds_apart
          FROM json_to_recordset(in_suspects)
               AS t (order_id bigint, other_id bigint, score smallint, reasons text, seconds_apart bigint);
        UPDATE orders o
           SET suspected_duplicates = o.suspected_duplicates + t.suspects, updated_at = moment, version = o.version + t.suspects
          FROM (SELECT s.other_id, count(*)::integer AS suspects FROM json_to_recordset(in_suspects) AS s (other_id bigint)
                 GROUP BY s.other_id) t
         WHERE o.store_id = in_store_id AND o.id = t.other_id;
    END IF;

    -- Order by order: its own events, then those of the variants that it reserved, then those of its suspected duplicates.
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data,
                        request_id, created_at, parent_version)
    SELECT in_store_id, e.id, e.type, e.resource_type, e.resource_id, e.version, actors[array_position(placed, e.order_id)],
           e.changes, e.data, requests[array_position(placed, e.order_id)], moment, e.parent_version
      FROM (SELECT t.order_id, 1 AS step, t.n, t.id, t.type, 'order' AS resource_type, t.order_id AS resource_id, 1 AS version,
                   t.changes, order_document(o.id, order_purchase(o.head, o.lines, o.edition), order_items(o.lines, o.edition), order_person(o.person, o.edition),
                       ',"suspected_duplicates_count":' || t.suspected_duplicates || times) AS data,
                   NULL::integer AS parent_version
              FROM json_to_recordset(in_events)
                   AS t (order_id bigint, n integer, id text, type text, changes text, suspected_duplicates integer)
                   JOIN orders o ON o.store_id = in_store_id AND o.id = t.order_id
             UNION ALL
            SELECT t.order_id, 2, k.n, new_event_id(), k.type, 'variant', v.id, v.version - t.later_orders,
                   '{"reserved":[' || v.reserved - t.later_units - t.units || ',' || v.reserved - t.later_units
                   || '],"available":[' || a.now + t.units || ',' || a.now || ']}',
                   variant_document(v.id, v.product_id, variant_head(v.head, v.edition), CASE WHEN t.later_orders = 0 THEN v.tail
                       ELSE stock_tail(v.on_hand, v.reserved - t.later_units)
                            || times_tail(v.created_at, moment, v.version - t.later_orders) || '}' END),
                   p.version - t.later_of_product
              FROM (SELECT l.order_id, l.variant_id, l.product_id, sum(l.units)::bigint AS units,
                           (dense_rank() OVER (PARTITION BY l.product_id ORDER BY l.order_id DESC) - 1)::integer AS later_of_product,
                           (sum(sum(l.units)) OVER up_to_last - sum(l.units))::bigint AS later_units,
                           (count(*) OVER up_to_last - 1)::integer AS later_orders
                      FROM unnest(line_orders, line_variants, line_products, line_units)
                           AS l (order_id, variant_id, product_id, units)
                     GROUP BY l.order_id, l.variant_id, l.product_id
                    WINDOW up_to_last AS (PARTITION BY l.variant_id ORDER BY l.order_id DESC)) t
                   JOIN variants v ON v.store_id = in_store_id AND v.id = t.variant_id
                   JOIN products p ON p.store_id = in_store_id AND p.id = t.product_id
                   CROSS JOIN LATERAL (SELECT v.on_hand - v.reserved + t.later_units) AS a (now)
                   CROSS JOIN LATERAL stock_event_types(v.track_inventory, v.low_stock_threshold, a.now + t.units, a.now) AS k
             UNION ALL
            SELECT t.order_id, 3, 1, new_event_id(), 'order.duplicate_suspected', 'order', o.id, o.version - t.later,
                   '{"suspected_duplicates_count":[' || a.count - 1 || ',' || a.count || ']}',
                   order_document(o.id, order_purchase(o.head, o.lines, o.edition), order_items(o.lines, o.edition), order_person(o.person, o.edition),
                       ',"suspected_duplicates_count":' || a.count
                       || times_tail(o.created_at, moment, o.version - t.later) || '}'), NULL
              FROM (SELECT s.order_id, s.other_id,
                           (count(*) OVER (PARTITION BY s.other_id ORDER BY s.order_id DESC) - 1)::integer AS later
                      FROM json_to_recordset(in_suspects) AS s (order_id bigint, other_id bigint)) t
                   JOIN orders o ON o.store_id = in_store_id AND o.id = t.other_id
                   CROSS JOIN LATERAL (SELECT o.suspected_duplicates - t.later) AS a (count)) e
     ORDER BY e.order_id, e.step, e.resource_id, e.n;
END $$;
