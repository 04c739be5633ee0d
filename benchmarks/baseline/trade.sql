-- Customers and orders in relational form, as schema.sql has the catalog.
CREATE TABLE baseline.customers (
    id                bigint        PRIMARY KEY,
    store_id          bigint        NOT NULL REFERENCES stores (id),
    external_id       text,
    email             text,
    phone             text,
    first_name        text,
    last_name         text,
    company           text,
    locale            text,
    status            text          NOT NULL,
    accepts_marketing boolean       NOT NULL,
    tags              text[]        NOT NULL,
    note              text,
    default_shipping_address_id bigint,
    default_billing_address_id  bigint,
    metadata          jsonb         NOT NULL,
    orders_count      bigint        NOT NULL,
    total_spent       numeric(17,2) NOT NULL,
    last_order_at     timestamptz,
    created_at        timestamptz   NOT NULL,
    updated_at        timestamptz   NOT NULL,
    version           integer       NOT NULL,
    deleted_at        timestamptz,
    consents          jsonb         NOT NULL
);

CREATE TABLE baseline.addresses (
    customer_id         bigint      NOT NULL REFERENCES baseline.customers (id),
    id                  bigint      NOT NULL,
    label               text,
    first_name          text,
    last_name           text,
    company             text,
    phone               text,
    address1            text        NOT NULL,
    address2            text,
    city                text,
    district            text,
    province            text,
    province_code       text,
    postal_code         text,
    country_code        text        NOT NULL,
    latitude            double precision,
    longitude           double precision,
    is_default_shipping boolean     NOT NULL,
    is_default_billing  boolean     NOT NULL,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    version             integer     NOT NULL,
    PRIMARY KEY (customer_id, id)
);

CREATE TABLE baseline.orders (
    id                 bigint        PRIMARY KEY,
    store_id           bigint        NOT NULL REFERENCES stores (id),
    number             bigint        NOT NULL,
    external_id        text,
    source             jsonb         NOT NULL,
    status             text          NOT NULL,
    payment_status     text          NOT NULL,
    fulfillment_status text          NOT NULL,
    currency           text          NOT NULL,
    customer_id        bigint        REFERENCES baseline.customers (id),
    email              text,
    subtotal           numeric(17,2) NOT NULL,
    discount_total     numeric(17,2) NOT NULL,
    shipping_total     numeric(17,2) NOT NULL,
    tax_total          numeric(17,2) NOT NULL,
    total              numeric(17,2) NOT NULL,
    amount_paid        numeric(17,2) NOT NULL,
    amount_refunded    numeric(17,2) NOT NULL,
    shipping_method    text,
    payment_method     text,
    tags               text[]        NOT NULL,
    duplicate_of       bigint,
    cancel_reason      text,
    placed_at          timestamptz   NOT NULL,
    cancelled_at       timestamptz,
    completed_at       timestamptz,
    contact            jsonb         NOT NULL,
    shipping_address   jsonb,
    billing_address    jsonb,
    tracking           jsonb         NOT NULL,
    note               text,
    metadata           jsonb         NOT NULL,
    suspected_duplicates_count integer NOT NULL,
    created_at         timestamptz   NOT NULL,
    updated_at         timestamptz   NOT NULL,
    version            integer       NOT NULL,
    prices_include_tax boolean       NOT NULL,
    discounts          jsonb         NOT NULL,
    tax_lines          jsonb         NOT NULL,
    fulfillments       jsonb         NOT NULL,
    refunds            jsonb         NOT NULL,
    payments           jsonb         NOT NULL,
    removed_line_items jsonb         NOT NULL,
    expires_at         timestamptz
);

CREATE TABLE baseline.order_lines (
    order_id           bigint        NOT NULL REFERENCES baseline.orders (id),
    id                 bigint        NOT NULL,
    product_id         bigint        NOT NULL,
    variant_id         bigint        NOT NULL,
    sku                text,
    name               text          NOT NULL,
    variant_title      text          NOT NULL,
    option_values      jsonb         NOT NULL,
    quantity           integer       NOT NULL,
    fulfilled_quantity integer       NOT NULL,
    returned_quantity  integer       NOT NULL,
    unit_price         numeric(17,2) NOT NULL,
    discount_total     numeric(17,2) NOT NULL,
    tax_total          numeric(17,2) NOT NULL,
    total              numeric(17,2) NOT NULL,
    metadata           jsonb         NOT NULL,
    discounts          jsonb         NOT NULL,
    tax_lines          jsonb         NOT NULL,
    requires_shipping  boolean       NOT NULL,
    taxable            boolean       NOT NULL,
    location           text,
    allocations        jsonb         NOT NULL,
    weight             double precision,
    weight_unit        text,
    PRIMARY KEY (order_id, id)
);

CREATE TABLE baseline.order_comments (
    id         bigint      PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    order_id   bigint      NOT NULL REFERENCES baseline.orders (id),
    type       text        NOT NULL,
    body       text        NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE TABLE baseline.order_numbers (store_id bigint PRIMARY KEY, last bigint NOT NULL);

CREATE TEMPORARY TABLE people ON COMMIT DROP AS
SELECT c.*, ('{' || substr(head, 2) || '}')::jsonb AS doc,
       regexp_replace(substr(shown, length(',"metadata":') + 1), E'\x1e[0-9]+:|\x1f', '', 'g')::jsonb AS noted
  FROM customers c WHERE deleted_at IS NULL;

INSERT INTO baseline.customers
SELECT id, store_id, external_id, email, phone, first_name, last_name, doc->>'company', doc->>'locale', status,
       (doc->>'accepts_marketing')::boolean, ARRAY(SELECT jsonb_array_elements_text(doc->'tags')), doc->>'note',
       (doc->>'default_shipping_address_id')::bigint, (doc->>'default_billing_address_id')::bigint, noted, orders_count,
       total_spent / 100.0, last_order_at, created_at, updated_at, version, deleted_at, doc->'consents'
  FROM people ORDER BY id;

INSERT INTO baseline.addresses
SELECT (a).customer_id, (a).id, (a).label, (a).first_name, (a).last_name, (a).company, (a).phone, (a).address1, (a).address2,
       (a).city, (a).district, (a).province, (a).province_code, (a).postal_code, (a).country_code, (a).latitude,
       (a).longitude, (a).is_default_shipping, (a).is_default_billing, (a).created_at, (a).updated_at, (a).version
  FROM (SELECT jsonb_populate_record(NULL::baseline.addresses, each) AS a
          FROM people, jsonb_array_elements(doc->'addresses') each ORDER BY people.id) found;

CREATE TEMPORARY TABLE purchases ON COMMIT DROP AS
SELECT o.*, ('{' || substr(head, 2) || person || '}')::jsonb AS doc FROM orders o ORDER BY id LIMIT 10020;

INSERT INTO baseline.orders
SELECT id, store_id, number, external_id, doc->'source', status, payment_status, fulfillment_status, doc->>'currency',
       customer_id, email, (doc->>'subtotal')::numeric, (doc->>'discount_total')::numeric,
       (doc->>'shipping_total')::numeric, (doc->>'tax_total')::numeric, (doc->>'total')::numeric,
       (doc->>'amount_paid')::numeric, (doc->>'amount_refunded')::numeric, doc->>'shipping_method',
       doc->>'payment_method', ARRAY(SELECT jsonb_array_elements_text(doc->'tags')), duplicate_of, doc->>'cancel_reason',
       (doc->>'placed_at')::timestamptz, (doc->>'cancelled_at')::timestamptz, (doc->>'completed_at')::timestamptz,
       doc->'contact', nullif(doc->'shipping_address', 'null'), nullif(doc->'billing_address', 'null'), doc->'tracking',
       doc->>'note', doc->'metadata', suspected_duplicates, created_at, updated_at, version,
       (doc->>'prices_include_tax')::boolean, doc->'discounts', doc->'tax_lines', doc->'fulfillments', doc->'refunds',
       doc->'payments', doc->'removed_line_items', expires_at
  FROM purchases ORDER BY id;

INSERT INTO baseline.order_lines
SELECT purchases.id, l.id, l.product_id, l.variant_id, l.sku, l.name, l.variant_title, l.option_values, l.quantity,
       l.fulfilled_quantity, l.returned_quantity, l.unit_price, l.discount_total, l.tax_total, l.total, l.metadata,
       l.discounts, l.tax_lines, l.requires_shipping, l.taxable, l.location, l.allocations, l.weight, l.weight_unit
  FROM purchases, jsonb_to_recordset(lines::jsonb) AS l (
       id bigint, product_id bigint, variant_id bigint, sku text, name text, variant_title text, option_values jsonb,
       quantity integer, fulfilled_quantity integer, returned_quantity integer, unit_price numeric, discount_total numeric,
       tax_total numeric, total numeric, metadata jsonb, discounts jsonb, tax_lines jsonb, requires_shipping boolean,
       taxable boolean, location text, allocations jsonb, weight float8, weight_unit text)
 ORDER BY purchases.id, l.id;

INSERT INTO baseline.order_numbers SELECT store_id, max(number) FROM baseline.orders GROUP BY store_id;

ALTER TABLE baseline.orders ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START 1000000000);
CREATE SEQUENCE baseline.order_line_ids START 1000000000;
ALTER TABLE baseline.order_lines ALTER id SET DEFAULT nextval('baseline.order_line_ids');

CREATE INDEX customers_of_store ON baseline.customers (store_id, id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX customers_email ON baseline.customers (store_id, lower(email)) WHERE deleted_at IS NULL;
CREATE INDEX orders_of_store ON baseline.orders (store_id, id);
CREATE UNIQUE INDEX orders_number ON baseline.orders (store_id, number);
CREATE UNIQUE INDEX orders_external_id ON baseline.orders (store_id, external_id);
CREATE INDEX orders_email ON baseline.orders (store_id, email, placed_at);
CREATE INDEX orders_customer ON baseline.orders (store_id, customer_id);
