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
             ORDER BY t.email_key COLLATE "C", t.phone COLLATE "C", t.external_id COLLATE "C", t.n
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
