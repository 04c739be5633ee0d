-- Stores customers with metadata entries and events. The index of a customer is its position in the list, from 1; entries and
-- events refer to it by customer_index. A new customer has an id if its addresses already name it. An entry without an app_id
-- is shared by all apps; an entry without a value is deleted. A change that only one app sees (not visible) keeps version and
-- updated_at. An event with an audience is for that app alone; its document shows the metadata whose section it names. Other
-- events have app_views, the own metadata of single apps.
-- `id = ANY (...)` with each join limits it to the rows of this call. Without it, a plan that was cached while the table was
-- small would read the whole store.
-- Returns the ids; null means that the customer was not created, because another one has its email, phone or external id.
CREATE FUNCTION save_customers(
    in_store_id bigint, in_digits integer, in_app_id bigint, in_actor text, in_request_id text,
    in_customers json, in_entries json, in_events json,
    OUT customer_ids bigint[]
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    new_customers bigint;
    created       bigint[];
    -- Taken while the rows are locked, so that a change that waited is not dated before the one it waited for.
    moment        timestamptz := clock_timestamp();
BEGIN
    SELECT array_agg(coalesce(t.id, nextval('customer_ids'))), count(*) FILTER (WHERE t.is_new)
      INTO customer_ids, new_customers
      FROM json_to_recordset(in_customers) AS t (id bigint, is_new boolean);

    IF new_customers < cardinality(customer_ids) THEN
        UPDATE customers c
           SET external_id = t.external_id, email = t.email, email_key = t.email_key, phone = t.phone,
               first_name = t.first_name, last_name = t.last_name, status = t.status, email_consent = t.email_consent,
               sms_consent = t.sms_consent, head = t.head, edition = coalesce(t.edition, 1), shown = t.shown,
               terms = t.terms, updated_at = CASE WHEN t.visible THEN moment ELSE c.updated_at END,
               version = c.version + t.visible::integer
          FROM json_to_recordset(in_customers) AS t (
                   id bigint, is_new boolean, external_id text, email text, email_key text, phone text, first_name text,
                   last_name text, status text, email_consent text, sms_consent text, head text, edition smallint,
                   shown text, terms tsvector, visible boolean)
         WHERE c.store_id = in_store_id AND c.id = ANY (customer_ids) AND c.id = t.id AND NOT t.is_new;
    END IF;
    IF new_customers > 0 THEN
        WITH added AS (
            INSERT INTO customers (store_id, id, external_id, email, email_key, phone, first_name, last_name, status,
                                   email_consent, sms_consent, digits, head, edition, shown, terms, created_at,
                                   updated_at)
            SELECT in_store_id, customer_ids[t.index], t.external_id, t.email, t.email_key, t.phone, t.first_name,
                   t.last_name, t.status, t.email_consent, t.sms_consent, in_digits, t.head,
                   coalesce(t.edition, 1), t.shown, t.terms, coalesce(t.created_at, moment), moment
              FROM json_to_recordset(in_customers) AS t (
                       index integer, is_new boolean, external_id text, email text, email_key text, phone text,
                       first_name text, last_name text, status text, email_consent text, sms_consent text, head text,
                       edition smallint, shown text, terms tsvector, created_at timestamptz)
             WHERE t.is_new
             ORDER BY t.email_key COLLATE "C", t.phone COLLATE "C", t.external_id COLLATE "C", t.index
            ON CONFLICT DO NOTHING
            RETURNING id)
        SELECT coalesce(array_agg(id), '{}') INTO created FROM added;
        IF cardinality(created) < new_customers THEN
            customer_ids := ARRAY(
                SELECT CASE WHEN NOT t.is_new OR customer_ids[t.index] = ANY (created) THEN customer_ids[t.index] END
                  FROM json_to_recordset(in_customers) AS t (index integer, is_new boolean) ORDER BY t.index);
        END IF;
        IF created <> '{}' THEN
            PERFORM count_rows(in_store_id, 'customers', cardinality(created));
        END IF;
    END IF;

    DELETE FROM customer_metadata m
     USING json_to_recordset(in_entries) AS t (customer_index integer, app_id bigint, key text, value text)
     WHERE m.store_id = in_store_id AND m.customer_id = ANY (customer_ids) AND m.customer_id = customer_ids[t.customer_index]
       AND m.app_id IS NOT DISTINCT FROM t.app_id AND m.key = t.key AND t.value IS NULL;
    INSERT INTO customer_metadata (store_id, customer_id, app_id, key, value, updated_at, updated_by)
    SELECT in_store_id, customer_ids[t.customer_index], t.app_id, t.key, t.value, moment, in_app_id
      FROM json_to_recordset(in_entries) AS t (customer_index integer, app_id bigint, key text, value text)
     WHERE t.value IS NOT NULL AND customer_ids[t.customer_index] IS NOT NULL
    ON CONFLICT ON CONSTRAINT customer_metadata_key
    DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at, updated_by = excluded.updated_by;

    INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id,
                        audience, app_views)
    SELECT in_store_id, new_event_id(), t.type, 'customer', c.id, c.version, in_actor, t.changes,
           customer_document(c.id, c.version, c.deleted_at, customer_head(c.head, c.edition),
                             replace(c.shown, coalesce(t.section, ''), ''), c.tail),
           in_request_id, t.audience, t.app_views
      FROM json_to_recordset(in_events)
           AS t (index integer, customer_index integer, type text, changes text, audience bigint, section text,
                 app_views text)
           JOIN customers c ON c.store_id = in_store_id AND c.id = ANY (customer_ids) AND c.id = customer_ids[t.customer_index]
     ORDER BY t.index;
END $$;
