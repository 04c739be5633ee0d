-- Customers. As in the catalogue, `head` and `tail` are the two ends of a resource's JSON; between them stands `shown`, the
-- metadata: first what is shared, then what is each app's own between two separators, of which a caller is given its part.

-- Minor units as the decimal string that callers see.
CREATE FUNCTION amount_text(minor bigint, digits integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
    CASE WHEN digits = 0 THEN minor::text
    ELSE CASE WHEN minor < 0 THEN '-' ELSE '' END || abs(minor) / (10 ^ digits)::bigint || '.'
         || lpad((abs(minor) % (10 ^ digits)::bigint)::text, digits, '0') END;

CREATE SEQUENCE customer_ids;
CREATE SEQUENCE customer_address_ids;
CREATE TABLE customers (
    store_id      bigint      NOT NULL,
    id            bigint      NOT NULL DEFAULT nextval('customer_ids'),
    external_id   text,
    email         text,       -- as typed
    email_key     text,       -- as compared
    phone         text,       -- E.164
    first_name    text,
    last_name     text,
    status        text        NOT NULL,
    digits        smallint    NOT NULL,  -- fraction digits of the store's currency
    orders_count  bigint      NOT NULL DEFAULT 0,
    total_spent   bigint      NOT NULL DEFAULT 0,
    last_order_at timestamptz,
    version       integer     NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    deleted_at    timestamptz,
    head          text        NOT NULL,
    shown         text        NOT NULL,
    tail          text        GENERATED ALWAYS AS (
        ',"orders_count":' || orders_count || ',"total_spent":"' || amount_text(total_spent, digits)
        || '","last_order_at":' || coalesce('"' || rfc3339(last_order_at) || '"', 'null')
        || times_tail(created_at, updated_at, version) || ',"deleted_at":null}') STORED,
    terms         tsvector    NOT NULL,
    CONSTRAINT customers_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT customers_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT customers_status_check CHECK (status IN ('active', 'disabled', 'erased')),
    CONSTRAINT customers_erased_check CHECK ((status = 'erased') = (deleted_at IS NOT NULL))
) WITH (fillfactor = 90, toast_tuple_target = 4080);
ALTER TABLE customers ALTER COLUMN head SET STORAGE MAIN;

CREATE UNIQUE INDEX customers_email_key ON customers (store_id, email_key) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX customers_phone_key ON customers (store_id, phone) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX customers_external_id_key ON customers (store_id, external_id) WHERE deleted_at IS NULL;
CREATE INDEX customers_status_idx ON customers (store_id, status, id);
CREATE INDEX customers_last_name_idx ON customers (store_id, coalesce(last_name, ''), id) WHERE deleted_at IS NULL;
CREATE INDEX customers_orders_count_idx ON customers (store_id, orders_count, id) WHERE deleted_at IS NULL;
CREATE INDEX customers_total_spent_idx ON customers (store_id, total_spent, id) WHERE deleted_at IS NULL;
CREATE INDEX customers_last_order_at_idx
    ON customers (store_id, coalesce(last_order_at, '1970-01-01 00:00:00+00'::timestamptz), id) WHERE deleted_at IS NULL;
CREATE INDEX customers_created_at_idx ON customers (store_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX customers_updated_at_idx ON customers (store_id, updated_at, id);
CREATE INDEX customers_terms_idx ON customers USING gin (terms);

-- Who wrote which metadata, and when; `shown` repeats the values. Namespace 0 is shared, any other is an app's own.
CREATE TABLE customer_metadata (
    store_id    bigint      NOT NULL,
    customer_id bigint      NOT NULL,
    namespace   bigint      NOT NULL,
    key         text        NOT NULL,
    value       text        NOT NULL,  -- as JSON
    updated_at  timestamptz NOT NULL,
    updated_by  bigint,                -- null when an operator did
    CONSTRAINT customer_metadata_pkey PRIMARY KEY (store_id, customer_id, namespace, key),
    CONSTRAINT customer_metadata_customer_fkey FOREIGN KEY (store_id, customer_id)
        REFERENCES customers (store_id, id) ON DELETE CASCADE
);

-- Erasing must find what was answered and reported of a person.
ALTER TABLE idempotency_keys ADD COLUMN person_id bigint;
CREATE INDEX idempotency_keys_person_idx ON idempotency_keys (store_id, person_id) WHERE person_id IS NOT NULL;
CREATE INDEX import_rows_result_idx ON import_rows (store_id, result_id) WHERE result_id IS NOT NULL;

-- A customer as an event carries it: of the metadata only what is shared. One that is erased is a tombstone.
CREATE FUNCTION customer_document(c customers) RETURNS text LANGUAGE sql STABLE RETURN
    CASE WHEN c.deleted_at IS NULL THEN
        '{"id":' || c.id || c.head || regexp_replace(c.shown, E'\x1e[^\x1f]*\x1f', '', 'g') || c.tail
    ELSE '{"id":' || c.id || ',"deleted_at":"' || rfc3339(c.deleted_at) || '","version":' || c.version || '}' END;

-- Stores customers (c_), metadata entries (m_) and events (e_) that were decided elsewhere. c_made marks new rows, whose id
-- may be given or null; m_customer and e_customer count rows of this same call, from 1; an entry without a value goes.
-- Answers the ids; null is one that could not be made, because another has its e-mail, phone or external id.
CREATE FUNCTION save_customers(
    in_store_id bigint, in_digits integer, in_app_id bigint, in_actor text, in_request_id text,
    c_id bigint[], c_made boolean[], c_external_id text[], c_email text[], c_email_key text[], c_phone text[],
    c_first_name text[], c_last_name text[], c_status text[], c_head text[], c_shown text[], c_terms text[],
    m_customer integer[], m_namespace bigint[], m_key text[], m_value text[],
    e_id text[], e_type text[], e_customer integer[], e_changes text[],
    OUT customer_ids bigint[]
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    born   bigint[];
    -- Taken when the rows are locked, so that a change that waited is not dated before the one it waited for.
    moment timestamptz := clock_timestamp();
BEGIN
    customer_ids := ARRAY(SELECT coalesce(t.id, nextval('customer_ids')) FROM unnest(c_id) WITH ORDINALITY AS t (id, n) ORDER BY t.n);

    UPDATE customers c
       SET external_id = t.external_id, email = t.email, email_key = t.email_key, phone = t.phone,
           first_name = t.first_name, last_name = t.last_name, status = t.status, head = t.head, shown = t.shown,
           terms = t.terms::tsvector, updated_at = moment, version = c.version + 1
      FROM unnest(c_id, c_made, c_external_id, c_email, c_email_key, c_phone, c_first_name, c_last_name, c_status, c_head,
                  c_shown, c_terms)
           AS t (id, made, external_id, email, email_key, phone, first_name, last_name, status, head, shown, terms)
     WHERE c.store_id = in_store_id AND c.id = t.id AND NOT t.made;
    IF true = ANY (c_made) THEN
        WITH added AS (
            INSERT INTO customers (store_id, id, external_id, email, email_key, phone, first_name, last_name, status, digits,
                                   head, shown, terms, created_at, updated_at)
            SELECT in_store_id, customer_ids[t.n], t.external_id, t.email, t.email_key, t.phone, t.first_name, t.last_name,
                   t.status, in_digits, t.head, t.shown, t.terms::tsvector, moment, moment
              FROM unnest(c_made, c_external_id, c_email, c_email_key, c_phone, c_first_name, c_last_name, c_status,
                          c_head, c_shown, c_terms) WITH ORDINALITY
                   AS t (made, external_id, email, email_key, phone, first_name, last_name, status, head, shown, terms, n)
             WHERE t.made
            ON CONFLICT DO NOTHING
            RETURNING id)
        SELECT coalesce(array_agg(id), '{}') INTO born FROM added;
        customer_ids := ARRAY(
            SELECT CASE WHEN NOT t.made OR t.id = ANY (born) THEN t.id END
              FROM unnest(customer_ids, c_made) WITH ORDINALITY AS t (id, made, n) ORDER BY t.n);
        IF born <> '{}' THEN
            INSERT INTO row_counts (store_id, resource, delta) VALUES (in_store_id, 'customers', cardinality(born));
        END IF;
    END IF;

    IF m_customer <> '{}' THEN
        DELETE FROM customer_metadata m USING unnest(m_customer, m_namespace, m_key, m_value) AS t (customer, namespace, key, value)
         WHERE m.store_id = in_store_id AND m.customer_id = customer_ids[t.customer] AND m.namespace = t.namespace
           AND m.key = t.key AND t.value IS NULL;
        INSERT INTO customer_metadata (store_id, customer_id, namespace, key, value, updated_at, updated_by)
        SELECT in_store_id, customer_ids[t.customer], t.namespace, t.key, t.value, moment, in_app_id
          FROM unnest(m_customer, m_namespace, m_key, m_value) AS t (customer, namespace, key, value)
         WHERE t.value IS NOT NULL AND customer_ids[t.customer] IS NOT NULL
        ON CONFLICT (store_id, customer_id, namespace, key)
        DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at, updated_by = excluded.updated_by;
    END IF;

    IF e_id <> '{}' THEN
        INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
        SELECT in_store_id, t.id, t.type, 'customer', c.id, c.version, in_actor, t.changes, customer_document(c), in_request_id
          FROM unnest(e_id, e_type, e_customer, e_changes) WITH ORDINALITY AS t (id, type, customer, changes, n)
               JOIN customers c ON c.store_id = in_store_id AND c.id = customer_ids[t.customer]
         ORDER BY t.n;
    END IF;
END $$;
