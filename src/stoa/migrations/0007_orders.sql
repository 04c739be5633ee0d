-- Orders. A document is '{"id":' || id || head || ',"line_items":' || lines || person || tail: `head` is what concerns
-- the purchase, `lines` what was bought, `person` what concerns whoever bought it, `tail` what moves by itself.

CREATE SEQUENCE order_ids;
CREATE TABLE orders (
    store_id             bigint      NOT NULL,
    id                   bigint      NOT NULL DEFAULT nextval('order_ids'),
    number               bigint      NOT NULL,
    external_id          text,
    status               text        NOT NULL,
    payment_status       text        NOT NULL,
    fulfillment_status   text        NOT NULL,
    customer_id          bigint,
    email                text,       -- of the contact, in lower case
    phone                text,
    total                bigint      NOT NULL,
    placed_at            timestamptz NOT NULL,
    duplicate_of         bigint,
    suspected_duplicates integer     NOT NULL DEFAULT 0,
    basket               bytea       NOT NULL,  -- what it holds, as a digest
    address              bytea,      -- where it goes, as a digest
    version              integer     NOT NULL DEFAULT 1,
    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL,
    head                 text        NOT NULL,
    lines                text        NOT NULL,
    person               text        NOT NULL,
    tail                 text        GENERATED ALWAYS AS (
        ',"suspected_duplicates_count":' || suspected_duplicates || times_tail(created_at, updated_at, version) || '}') STORED,
    terms                tsvector    NOT NULL,
    CONSTRAINT orders_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT orders_number_key UNIQUE (store_id, number),
    CONSTRAINT orders_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT orders_customer_fkey FOREIGN KEY (store_id, customer_id) REFERENCES customers (store_id, id),
    CONSTRAINT orders_status_check CHECK (status IN ('draft', 'pending', 'processing', 'on_hold', 'shipped', 'delivered',
                                                     'completed', 'cancelled', 'returned')),
    CONSTRAINT orders_payment_status_check CHECK (
        payment_status IN ('unpaid', 'authorized', 'paid', 'failed', 'voided', 'partially_refunded', 'refunded')),
    CONSTRAINT orders_fulfillment_status_check CHECK (
        fulfillment_status IN ('unfulfilled', 'partially_fulfilled', 'fulfilled', 'returned')),
    CONSTRAINT orders_total_check CHECK (total >= 0),
    CONSTRAINT orders_suspected_check CHECK (suspected_duplicates >= 0)
) WITH (fillfactor = 80, toast_tuple_target = 4080);
ALTER TABLE orders ALTER COLUMN head SET STORAGE MAIN;
ALTER TABLE orders ALTER COLUMN lines SET STORAGE MAIN;
ALTER TABLE orders ALTER COLUMN person SET STORAGE MAIN;
-- Nobody asks for a document by its text: to gather statistics of it would only take time.
ALTER TABLE orders ALTER COLUMN head SET STATISTICS 0, ALTER COLUMN lines SET STATISTICS 0,
    ALTER COLUMN person SET STATISTICS 0, ALTER COLUMN tail SET STATISTICS 0;

CREATE UNIQUE INDEX orders_external_id_key ON orders (store_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX orders_status_idx ON orders (store_id, status, id);
CREATE INDEX orders_payment_status_idx ON orders (store_id, payment_status, id);
CREATE INDEX orders_fulfillment_status_idx ON orders (store_id, fulfillment_status, id);
-- The next three serve the filters, and the look for duplicates within a window of time.
CREATE INDEX orders_customer_idx ON orders (store_id, customer_id, placed_at) WHERE customer_id IS NOT NULL;
CREATE INDEX orders_email_idx ON orders (store_id, email, placed_at) WHERE email IS NOT NULL;
CREATE INDEX orders_phone_idx ON orders (store_id, phone, placed_at) WHERE phone IS NOT NULL;
CREATE INDEX orders_total_idx ON orders (store_id, total, id);
CREATE INDEX orders_placed_at_idx ON orders (store_id, placed_at, id);
CREATE INDEX orders_updated_at_idx ON orders (store_id, updated_at, id);
CREATE INDEX orders_duplicate_of_idx ON orders (store_id, duplicate_of) WHERE duplicate_of IS NOT NULL;
CREATE INDEX orders_suspected_idx ON orders (store_id, (suspected_duplicates > 0), id);
CREATE INDEX orders_terms_idx ON orders USING gin (terms);

-- The lines again, for what a document cannot do: be found by SKU, and be held to sense.
CREATE SEQUENCE order_line_ids;
CREATE TABLE order_lines (
    store_id           bigint  NOT NULL,
    order_id           bigint  NOT NULL,
    id                 bigint  NOT NULL,
    variant_id         bigint  NOT NULL,
    sku                text,
    quantity           integer NOT NULL,
    fulfilled_quantity integer NOT NULL,
    returned_quantity  integer NOT NULL,
    CONSTRAINT order_lines_pkey PRIMARY KEY (store_id, order_id, id),
    CONSTRAINT order_lines_order_fkey FOREIGN KEY (store_id, order_id) REFERENCES orders (store_id, id) ON DELETE CASCADE,
    CONSTRAINT order_lines_quantity_check CHECK (
        quantity > 0 AND fulfilled_quantity BETWEEN 0 AND quantity AND returned_quantity BETWEEN 0 AND fulfilled_quantity)
);
CREATE INDEX order_lines_sku_idx ON order_lines (store_id, sku, order_id) WHERE sku IS NOT NULL;

-- The timeline: what people wrote and what happened, never changed.
CREATE SEQUENCE order_comment_ids;
CREATE TABLE order_comments (
    store_id   bigint      NOT NULL,
    order_id   bigint      NOT NULL,
    id         bigint      NOT NULL DEFAULT nextval('order_comment_ids'),
    type       text        NOT NULL,
    visibility text        NOT NULL,
    body       text,
    author     text        NOT NULL,
    changes    text        NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT order_comments_pkey PRIMARY KEY (store_id, order_id, id),
    CONSTRAINT order_comments_order_fkey FOREIGN KEY (store_id, order_id) REFERENCES orders (store_id, id) ON DELETE CASCADE,
    CONSTRAINT order_comments_type_check CHECK (type IN ('comment', 'status_change', 'edit', 'system')),
    CONSTRAINT order_comments_visibility_check CHECK (visibility IN ('internal', 'customer'))
);

-- Pairs that look like one purchase twice; `order_id` is the one that came later.
CREATE TABLE order_duplicates (
    store_id      bigint   NOT NULL,
    order_id      bigint   NOT NULL,
    other_id      bigint   NOT NULL,
    score         smallint NOT NULL,  -- in hundredths
    reasons       text     NOT NULL,  -- as JSON
    seconds_apart bigint   NOT NULL,
    CONSTRAINT order_duplicates_pkey PRIMARY KEY (store_id, order_id, other_id),
    CONSTRAINT order_duplicates_order_fkey FOREIGN KEY (store_id, order_id) REFERENCES orders (store_id, id) ON DELETE CASCADE,
    CONSTRAINT order_duplicates_other_fkey FOREIGN KEY (store_id, other_id) REFERENCES orders (store_id, id) ON DELETE CASCADE
);
CREATE INDEX order_duplicates_other_idx ON order_duplicates (store_id, other_id);

-- The last number that was taken in each store.
CREATE TABLE order_numbers (
    store_id bigint NOT NULL,
    last     bigint NOT NULL,
    CONSTRAINT order_numbers_pkey PRIMARY KEY (store_id),
    CONSTRAINT order_numbers_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE
) WITH (fillfactor = 50);

-- Takes a number, and the ids of an order and its lines. Called in a transaction of its own, so that nobody waits for
-- an order to be written; that one's commit, later in the log, makes this durable too.
CREATE FUNCTION take_order_number(
    in_store_id bigint, in_lines integer,
    OUT number bigint, OUT order_id bigint, OUT line_ids bigint[], OUT moment timestamptz
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO order_numbers AS n (store_id, last) VALUES (in_store_id, 1001)
        ON CONFLICT ON CONSTRAINT order_numbers_pkey DO UPDATE SET last = n.last + 1 RETURNING n.last INTO number;
    order_id := nextval('order_ids');
    line_ids := ARRAY(SELECT nextval('order_line_ids') FROM generate_series(1, in_lines));
    moment := clock_timestamp();
END $$;

CREATE FUNCTION order_document(o orders) RETURNS text LANGUAGE sql STABLE RETURN
    '{"id":' || o.id || o.head || ',"line_items":' || o.lines || o.person || o.tail;

-- An entry of the timeline as callers see it.
CREATE FUNCTION comment_document(c order_comments) RETURNS text LANGUAGE sql STABLE RETURN
    '{"id":' || c.id || ',"order_id":' || c.order_id || ',"type":"' || c.type || '","visibility":"' || c.visibility
    || '","body":' || json_text(c.body) || ',"author":' || c.author || ',"changes":' || c.changes
    || ',"created_at":"' || rfc3339(c.created_at) || '"}';

-- Orders by the same contact around a moment, with the same basket or to the same address, the newest first. Of two that are placed at once by one contact, the
-- second waits here for the first, and so sees it.
CREATE FUNCTION orders_of_contact(
    in_store_id bigint, in_customer_id bigint, in_email text, in_phone text, in_basket bytea, in_address bytea,
    in_placed_at timestamptz, in_hours integer
) RETURNS TABLE (id bigint, customer_id bigint, email text, phone text, basket bytea, address bytea, total bigint,
                 placed_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    key   bigint;
    since timestamptz := in_placed_at - make_interval(hours => in_hours);
    until timestamptz := in_placed_at + make_interval(hours => in_hours);
BEGIN
    FOR key IN
        SELECT DISTINCT hashtextextended(in_store_id || t.contact, 7) FROM (VALUES
            ('/customer/' || in_customer_id), ('/email/' || in_email), ('/phone/' || in_phone)) AS t (contact)
         WHERE t.contact IS NOT NULL ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock(key);
    END LOOP;
    RETURN QUERY
    SELECT o.id, o.customer_id, o.email, o.phone, o.basket, o.address, o.total, o.placed_at
      FROM orders o
     WHERE o.store_id = in_store_id AND o.status <> 'cancelled' AND (o.basket = in_basket OR o.address = in_address)
       AND o.id IN (
           (SELECT a.id FROM orders a WHERE a.store_id = in_store_id AND a.customer_id = in_customer_id
               AND a.placed_at BETWEEN since AND until ORDER BY a.placed_at DESC LIMIT 200)
           UNION
           (SELECT b.id FROM orders b WHERE b.store_id = in_store_id AND b.email = in_email
               AND b.placed_at BETWEEN since AND until ORDER BY b.placed_at DESC LIMIT 200)
           UNION
           (SELECT c.id FROM orders c WHERE c.store_id = in_store_id AND c.phone = in_phone
               AND c.placed_at BETWEEN since AND until ORDER BY c.placed_at DESC LIMIT 200))
     ORDER BY o.placed_at DESC, o.id DESC;
END $$;

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
          FROM move_stock(in_store_id, true, in_actor, in_request_id, m_variant, array_fill(NULL::text, ARRAY[many]), m_kind,
                          array_fill(false, ARRAY[many]), m_on_hand, m_reserved, array_fill(NULL::bigint, ARRAY[many]),
                          ARRAY(SELECT CASE t.kind WHEN 'restock' THEN 'return' ELSE 'order' END
                                  FROM unnest(m_kind) WITH ORDINALITY AS t (kind, n) ORDER BY t.n),
                          array_fill(o_number::text, ARRAY[many]),
                          array_fill(o_id, ARRAY[many]), m_key, false) m;
    END IF;
    version := stored.version;
    doc := convert_to(shown, 'UTF8');
END $$;

-- The purchase without what somebody wrote of why it was called off. In JSON no other quotation mark stands before a colon.
CREATE FUNCTION head_without_reason(head text) RETURNS text LANGUAGE sql STABLE RETURN
    regexp_replace(head, '"cancel_reason":"(\\.|[^"\\])*"', '"cancel_reason":null');

-- An order's lines without what an app noted beside them; the order of members stays.
CREATE FUNCTION lines_without_notes(lines text) RETURNS text LANGUAGE sql STABLE RETURN
    (SELECT '[' || coalesce(string_agg('{' || l.members || '}', ',' ORDER BY l.n), '') || ']'
       FROM (SELECT line.n, string_agg(to_json(m.key)::text || ':'
                    || CASE WHEN m.key = 'metadata' THEN '{}' ELSE m.value::text END, ',' ORDER BY m.place) AS members
               FROM json_array_elements(lines::json) WITH ORDINALITY AS line (value, n),
                    json_each(line.value) WITH ORDINALITY AS m (key, value, place)
              GROUP BY line.n) l);
