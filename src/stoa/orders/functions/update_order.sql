-- Stores a changed order (in_order, one row) with its lines (in_lines, empty if they are unchanged), timeline entries and
-- events. in_no_longer_suspected names other orders that lose one suspected duplicate; the caller has locked them. The
-- customer is locked before the order.
CREATE FUNCTION update_order(
    in_store_id bigint, in_actor text, in_author text, in_request_id text, in_order json, in_lines json, in_entries json,
    in_events json, in_no_longer_suspected bigint[], OUT version integer, OUT doc bytea
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    change   record;
    moment   timestamptz := clock_timestamp();
    new_tail text;
    written  smallint;  -- the edition of the document
    document text;
    dates    record;
BEGIN
    SELECT t.* INTO STRICT change
      FROM json_to_recordset(in_order) AS t (
               id bigint, external_id text, status text, payment_status text, fulfillment_status text, customer_id bigint,
               customer_orders integer, customer_spent bigint, last_order_at timestamptz, email text, phone text, total bigint,
               suspected_duplicates integer, basket bytea, address bytea, head text, lines text, person text, edition smallint,
               terms tsvector);
    IF change.customer_orders <> 0 OR change.customer_spent <> 0 THEN
        -- The lock comes first: the next statement then sees every order that a concurrent transaction placed or changed.
        PERFORM 1 FROM customers c WHERE c.store_id = in_store_id AND c.id = change.customer_id FOR NO KEY UPDATE;
        moment := clock_timestamp();  -- after the wait for the customer, so that a row's times never run backwards
        UPDATE customers c
           SET orders_count = c.orders_count + change.customer_orders, total_spent = c.total_spent + change.customer_spent,
               last_order_at = CASE WHEN change.customer_orders < 0 THEN (
                       SELECT o.placed_at FROM orders o
                        WHERE o.store_id = in_store_id AND o.customer_id = change.customer_id AND o.id <> change.id
                          AND o.status NOT IN ('draft', 'cancelled')
                        ORDER BY o.placed_at DESC LIMIT 1)
                   ELSE greatest(c.last_order_at, change.last_order_at) END,
               updated_at = greatest(c.updated_at, moment), version = c.version + 1
         WHERE c.store_id = in_store_id AND c.id = change.customer_id;
    END IF;
    IF coalesce(change.edition, 1) = 1 THEN  -- release 0.3.0 writes payments without their records
        change.head := head_with_payments(change.head, change.lines, rfc3339(moment), in_actor);
        change.payment_status := member_text(change.head, 'payment_status');
    END IF;
    dates := record_dates(change.head);
    UPDATE orders o
       SET external_id = change.external_id, status = change.status, payment_status = change.payment_status,
           paid_at = dates.paid_at, refunded_at = dates.refunded_at, shipped_at = dates.shipped_at,
           fulfillment_status = change.fulfillment_status, email = change.email, phone = change.phone, total = change.total,
           suspected_duplicates = change.suspected_duplicates, basket = change.basket, address = change.address,
           head = change.head, lines = change.lines, person = change.person, edition = coalesce(change.edition, 1),
           terms = coalesce(change.terms, o.terms),
           expires_at = CASE WHEN strpos(change.head, '"expires_at":"') > 0
                             THEN held_until(change.status, change.payment_status, member_text(change.head, 'expires_at')) END,
           updated_at = moment, version = o.version + 1
     WHERE o.store_id = in_store_id AND o.id = change.id
    RETURNING o.version, o.tail, o.edition INTO STRICT version, new_tail, written;
    document := order_document(change.id, order_purchase(change.head, change.lines, written), order_items(change.lines, written),
                               order_person(change.person, written), new_tail);
    IF json_array_length(in_lines) > 0 THEN
        DELETE FROM order_lines l
         WHERE l.store_id = in_store_id AND l.order_id = change.id
           AND NOT l.id = ANY (ARRAY(SELECT t.id FROM json_to_recordset(in_lines) AS t (id bigint)));
        INSERT INTO order_lines (store_id, order_id, id, variant_id, sku, quantity, fulfilled_quantity, returned_quantity)
        SELECT in_store_id, change.id, t.id, t.variant_id, t.sku, t.quantity, t.fulfilled_quantity, t.returned_quantity
          FROM json_to_recordset(in_lines) AS t (
                   id bigint, variant_id bigint, sku text, quantity integer, fulfilled_quantity integer, returned_quantity integer)
            ON CONFLICT ON CONSTRAINT order_lines_pkey DO UPDATE
           SET quantity = excluded.quantity, fulfilled_quantity = excluded.fulfilled_quantity,
               returned_quantity = excluded.returned_quantity;
        DELETE FROM order_allocations a WHERE a.store_id = in_store_id AND a.order_id = change.id;
        INSERT INTO order_allocations (store_id, order_id, line_id, location, reserved, shipped)
        SELECT in_store_id, change.id, a.line_id, a.location, a.reserved, a.shipped FROM allocated_elsewhere(change.lines) AS a;
    END IF;
    INSERT INTO order_comments (store_id, order_id, type, visibility, body, author, changes, created_at)
    SELECT in_store_id, change.id, t.type, 'internal', t.body, in_author, t.changes, moment
      FROM json_to_recordset(in_entries) AS t (type text, body text, changes text);
    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
    SELECT in_store_id, t.id, t.type, 'order', change.id, update_order.version, in_actor, t.changes, document, in_request_id
      FROM json_to_recordset(in_events) AS t (n integer, id text, type text, changes text) ORDER BY t.n;
    IF in_no_longer_suspected <> '{}' THEN
        UPDATE orders o
           SET suspected_duplicates = o.suspected_duplicates - 1, updated_at = moment, version = o.version + 1
         WHERE o.store_id = in_store_id AND o.id = ANY (in_no_longer_suspected);
        INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
        SELECT in_store_id, new_event_id(), 'order.updated', 'order', o.id, o.version, in_actor,
               '{"suspected_duplicates_count":[' || o.suspected_duplicates + 1 || ',' || o.suspected_duplicates || ']}',
               order_document(o.id, order_purchase(o.head, o.lines, o.edition), order_items(o.lines, o.edition),
                              order_person(o.person, o.edition), o.tail), in_request_id
          FROM unnest(in_no_longer_suspected) AS t (id) JOIN orders o ON o.store_id = in_store_id AND o.id = t.id
         ORDER BY o.id;
    END IF;
    doc := convert_to(document, 'UTF8');
END $$;
