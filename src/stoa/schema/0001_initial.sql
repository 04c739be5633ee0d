-- The tables, indexes and sequences of the first release, by chapter. `schema.sql` shows the result of all migrations.
--
-- The comment on each table says where its rows live on a cluster:
--   store   the table belongs to a store: store_id comes first in every key, and every statement names its store
--   global  the table is looked up without a store, so every node needs a copy
--   local   the rows stay on one node

-- === Stores, apps and credentials =====================================================================================

CREATE SEQUENCE store_ids;
CREATE TABLE stores (
    id         bigint      NOT NULL DEFAULT nextval('store_ids'),
    handle     text        NOT NULL,
    name       text        NOT NULL,
    currency   text        NOT NULL,
    status     text        NOT NULL DEFAULT 'active',
    timezone   text        NOT NULL DEFAULT 'UTC',    -- a name of the IANA database
    locale     text        NOT NULL DEFAULT 'en-US',  -- a BCP 47 language tag
    -- The rows of `locations` as callers see them, so that a request knows them with its store.
    locations  text        NOT NULL DEFAULT '[{"code":"default","name":"Default","address":null,"priority":0,"active":true}]',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    prices_include_tax boolean NOT NULL DEFAULT false,  -- the default of new orders
    CONSTRAINT stores_pkey PRIMARY KEY (id),
    CONSTRAINT stores_handle_key UNIQUE (handle),
    CONSTRAINT stores_handle_check CHECK (handle ~ '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$'),
    CONSTRAINT stores_status_check CHECK (status IN ('active', 'suspended'))
);
COMMENT ON TABLE stores IS 'global';

CREATE TABLE store_hosts (
    host     text   NOT NULL,
    store_id bigint NOT NULL,
    CONSTRAINT store_hosts_pkey PRIMARY KEY (host),
    CONSTRAINT store_hosts_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE
);
COMMENT ON TABLE store_hosts IS 'global';

-- A deleted app keeps its row, so that logs can still show its name.
CREATE SEQUENCE app_ids;
CREATE TABLE apps (
    id         bigint      NOT NULL DEFAULT nextval('app_ids'),
    client_id  text        NOT NULL,
    name       text        NOT NULL,
    scopes     text[]      NOT NULL,
    status     text        NOT NULL DEFAULT 'active',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT apps_pkey PRIMARY KEY (id),
    CONSTRAINT apps_client_id_key UNIQUE (client_id),
    CONSTRAINT apps_status_check CHECK (status IN ('active', 'suspended', 'deleted'))
);
COMMENT ON TABLE apps IS 'global';

CREATE SEQUENCE app_secret_ids;
CREATE TABLE app_secrets (
    app_id      bigint      NOT NULL,
    id          bigint      NOT NULL DEFAULT nextval('app_secret_ids'),
    secret_hash bytea       NOT NULL,
    hint        text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    CONSTRAINT app_secrets_pkey PRIMARY KEY (app_id, id),
    CONSTRAINT app_secrets_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE
);
COMMENT ON TABLE app_secrets IS 'global';

-- Where the service calls an app back: the endpoint of its app events, and the addresses to which a merchant returns from an
-- install link. Both are signed with the app's signing secret, which exists once one of them is set.
CREATE TABLE app_callbacks (
    app_id                bigint      NOT NULL,
    endpoint_url          text,       -- null: app events are not sent
    return_urls           text[]      NOT NULL DEFAULT '{}',
    sealed_secret         bytea       NOT NULL,
    sealed_old_secret     bytea,      -- also signs until old_secret_expires_at
    old_secret_expires_at timestamptz,
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT app_callbacks_pkey PRIMARY KEY (app_id),
    CONSTRAINT app_callbacks_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE
);
COMMENT ON TABLE app_callbacks IS 'global';

CREATE TABLE tokens (
    token_hash bytea       NOT NULL,
    app_id     bigint      NOT NULL,
    store_id   bigint,                -- set if the token is bound to one store
    scopes     text[],                -- set if the request asked for fewer scopes than are granted
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT tokens_pkey PRIMARY KEY (token_hash),
    CONSTRAINT tokens_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT tokens_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE
);
CREATE INDEX tokens_expires_at_idx ON tokens (expires_at);
COMMENT ON TABLE tokens IS 'global';

-- Failed authentication attempts by client and by address. All workers share the count, so guessing slows down on each.
CREATE UNLOGGED TABLE failed_attempts (
    subject    text        NOT NULL,
    failures   integer     NOT NULL,
    first_at   timestamptz NOT NULL,
    CONSTRAINT failed_attempts_pkey PRIMARY KEY (subject)
);
COMMENT ON TABLE failed_attempts IS 'local';

CREATE TABLE installations (
    store_id         bigint      NOT NULL,
    app_id           bigint      NOT NULL,
    scopes           text[]      NOT NULL,
    rate_burst       integer,
    rate_refill      integer,
    reinstalled_at   timestamptz,  -- set if the app was installed before: tokens and keys from before stay invalid
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT installations_pkey PRIMARY KEY (store_id, app_id),
    CONSTRAINT installations_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT installations_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT installations_rate_check CHECK (rate_burst > 0 AND rate_refill > 0)
);
CREATE INDEX installations_app_idx ON installations (app_id, store_id);
COMMENT ON TABLE installations IS 'store';

-- Tombstones: the app was installed on the store and is not any more. A reinstall deletes the row.
CREATE TABLE removed_installations (
    store_id     bigint      NOT NULL,
    app_id       bigint      NOT NULL,
    scopes       text[]      NOT NULL,          -- those that the store granted; its owner may grant them again
    installed_at timestamptz NOT NULL,
    removed_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT removed_installations_pkey PRIMARY KEY (store_id, app_id),
    CONSTRAINT removed_installations_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT removed_installations_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE
);
CREATE INDEX removed_installations_app_idx ON removed_installations (app_id, store_id);
COMMENT ON TABLE removed_installations IS 'store';

-- Append-only. Each entry is sealed with the hash of the one before it; each store has a chain of its own.
CREATE TABLE audit_entries (
    store_id   bigint      NOT NULL,
    position   bigint      NOT NULL,
    action     text        NOT NULL,
    actor      text        NOT NULL,
    subject    text        NOT NULL,
    detail     text        NOT NULL,
    request_id text        NOT NULL,
    created_at timestamptz NOT NULL,
    seal       bytea       NOT NULL,
    CONSTRAINT audit_entries_pkey PRIMARY KEY (store_id, position)
);
COMMENT ON TABLE audit_entries IS 'store';

-- The chain of entries that belong to no single store.
CREATE TABLE service_audit_entries (
    position   bigint      NOT NULL,
    action     text        NOT NULL,
    actor      text        NOT NULL,
    subject    text        NOT NULL,
    detail     text        NOT NULL,
    request_id text        NOT NULL,
    created_at timestamptz NOT NULL,
    seal       bytea       NOT NULL,
    CONSTRAINT service_audit_entries_pkey PRIMARY KEY (position)
);
COMMENT ON TABLE service_audit_entries IS 'global';

-- What is known of the service as a whole: the fingerprint of its key, the last backup, and a row that readiness checks write.
CREATE TABLE service_facts (
    name     text        NOT NULL,
    value    text        NOT NULL DEFAULT '',
    noted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT service_facts_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE service_facts IS 'local';
INSERT INTO service_facts (name) VALUES ('writable');

-- === Accounts: people, their sessions, and what they own ==============================================================

CREATE SEQUENCE account_ids;
CREATE TABLE accounts (
    id                  bigint      NOT NULL DEFAULT nextval('account_ids'),
    email               text        NOT NULL,
    name                text        NOT NULL,
    password_hash       text        NOT NULL,
    operator            boolean     NOT NULL DEFAULT false,
    status              text        NOT NULL DEFAULT 'active',
    totp_secret         bytea,                           -- encrypted; set if two-factor authentication is on
    totp_step           bigint      NOT NULL DEFAULT 0,  -- the newest step used: a code works once
    factor_failures     integer     NOT NULL DEFAULT 0,
    factor_locked_until timestamptz,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT accounts_pkey PRIMARY KEY (id),
    CONSTRAINT accounts_email_key UNIQUE (email),
    CONSTRAINT accounts_email_check CHECK (email = lower(email)),
    CONSTRAINT accounts_status_check CHECK (status IN ('active', 'disabled'))
);
COMMENT ON TABLE accounts IS 'global';

-- A recovery code is shown once and works once; only its hash is stored.
CREATE TABLE account_recovery_codes (
    account_id bigint NOT NULL,
    code_hash  bytea  NOT NULL,
    CONSTRAINT account_recovery_codes_pkey PRIMARY KEY (account_id, code_hash),
    CONSTRAINT account_recovery_codes_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE
);
COMMENT ON TABLE account_recovery_codes IS 'global';

CREATE SEQUENCE account_session_ids;
CREATE TABLE account_sessions (
    session_hash bytea       NOT NULL,
    id           bigint      NOT NULL DEFAULT nextval('account_session_ids'),
    account_id   bigint      NOT NULL,
    stage        text        NOT NULL,
    address      text        NOT NULL,
    agent        text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    seen_at      timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    CONSTRAINT account_sessions_pkey PRIMARY KEY (session_hash),
    CONSTRAINT account_sessions_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT account_sessions_stage_check CHECK (stage IN ('password', 'signed in'))
);
CREATE INDEX account_sessions_account_idx ON account_sessions (account_id);
CREATE INDEX account_sessions_expires_at_idx ON account_sessions (expires_at);
COMMENT ON TABLE account_sessions IS 'global';

-- One-time links: the first set-up, an invitation, a password reset.
CREATE TABLE account_links (
    token_hash bytea       NOT NULL,
    purpose    text        NOT NULL,
    email      text        NOT NULL DEFAULT '',
    operator   boolean     NOT NULL DEFAULT false,
    account_id bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT account_links_pkey PRIMARY KEY (token_hash),
    CONSTRAINT account_links_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT account_links_purpose_check CHECK (purpose IN ('set-up', 'invitation', 'reset'))
);
CREATE INDEX account_links_expires_at_idx ON account_links (expires_at);
COMMENT ON TABLE account_links IS 'global';

-- Pages that a form produced, such as one with a new secret; encrypted, and deleted after a few minutes.
CREATE TABLE account_results (
    result_hash  bytea       NOT NULL,
    session_hash bytea       NOT NULL,
    path         text        NOT NULL,
    page         bytea       NOT NULL,
    shows_left   integer     NOT NULL,
    expires_at   timestamptz NOT NULL,
    CONSTRAINT account_results_pkey PRIMARY KEY (result_hash),
    CONSTRAINT account_results_session_fkey FOREIGN KEY (session_hash) REFERENCES account_sessions (session_hash)
        ON DELETE CASCADE
);
CREATE INDEX account_results_session_idx ON account_results (session_hash);
CREATE INDEX account_results_expires_at_idx ON account_results (expires_at);
COMMENT ON TABLE account_results IS 'global';

CREATE TABLE account_stores (
    account_id  bigint      NOT NULL,
    store_id    bigint      NOT NULL,
    role        text        NOT NULL,
    development boolean     NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT account_stores_pkey PRIMARY KEY (account_id, store_id),
    CONSTRAINT account_stores_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT account_stores_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT account_stores_role_check CHECK (role IN ('owner', 'viewer'))
);
CREATE INDEX account_stores_store_idx ON account_stores (store_id);
COMMENT ON TABLE account_stores IS 'global';

CREATE TABLE account_apps (
    account_id bigint      NOT NULL,
    app_id     bigint      NOT NULL,
    role       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT account_apps_pkey PRIMARY KEY (account_id, app_id),
    CONSTRAINT account_apps_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT account_apps_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT account_apps_role_check CHECK (role IN ('owner', 'viewer'))
);
CREATE INDEX account_apps_app_idx ON account_apps (app_id);
COMMENT ON TABLE account_apps IS 'global';

-- What merchants see of an app. `registration` identifies the submitted form: submitting it twice creates one app.
CREATE TABLE app_listings (
    app_id       bigint      NOT NULL,
    homepage     text        NOT NULL,
    reasons      text        NOT NULL,  -- a JSON object: scope to reason
    registration text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT app_listings_pkey PRIMARY KEY (app_id),
    CONSTRAINT app_listings_registration_key UNIQUE (registration),
    CONSTRAINT app_listings_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE
);
COMMENT ON TABLE app_listings IS 'global';

CREATE TABLE installation_requests (
    store_id   bigint      NOT NULL,
    app_id     bigint      NOT NULL,
    account_id bigint,
    scopes     text[]      NOT NULL,
    message    text        NOT NULL,
    status     text        NOT NULL DEFAULT 'pending',
    created_at timestamptz NOT NULL DEFAULT now(),
    decided_at timestamptz,
    CONSTRAINT installation_requests_pkey PRIMARY KEY (store_id, app_id),
    CONSTRAINT installation_requests_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT installation_requests_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT installation_requests_account_fkey FOREIGN KEY (account_id) REFERENCES accounts (id) ON DELETE SET NULL,
    CONSTRAINT installation_requests_status_check CHECK (status IN ('pending', 'refused'))
);
CREATE INDEX installation_requests_app_idx ON installation_requests (app_id);
COMMENT ON TABLE installation_requests IS 'global';

-- === Requests: rate limits, idempotency keys, totals ==================================================================

-- Unlogged: a crash only refills the bucket.
CREATE UNLOGGED TABLE rate_buckets (
    store_id    bigint           NOT NULL,
    app_id      bigint           NOT NULL,
    purpose     text             NOT NULL,
    level       double precision NOT NULL,  -- before the last take
    tokens      double precision NOT NULL,  -- after the last take
    refilled_at timestamptz      NOT NULL,
    CONSTRAINT rate_buckets_pkey PRIMARY KEY (store_id, app_id, purpose),
    CONSTRAINT rate_buckets_purpose_check CHECK (purpose IN ('requests', 'test_sends'))
) WITH (fillfactor = 50);
COMMENT ON TABLE rate_buckets IS 'store';

-- The tables that every write touches have no foreign key to stores: it would lock the store's row, and all writers of a
-- store would contend for it. Stores are suspended, never deleted, and a request resolves its store before it writes.

-- `subject_type` and `subject_id` name the person whose personal data the stored response may contain, so that erasure finds
-- it. The subject `contact` has no id: the person is stored nowhere else.
CREATE TABLE idempotency_keys (
    store_id     bigint      NOT NULL,
    app_id       bigint      NOT NULL,
    key          text        NOT NULL,
    fingerprint  bytea       NOT NULL,
    status       integer,
    headers      text,
    body         bytea,
    subject_type text,
    subject_id   bigint,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (store_id, app_id, key),
    CONSTRAINT idempotency_keys_subject_check CHECK (
        CASE subject_type WHEN 'customer' THEN subject_id IS NOT NULL WHEN 'order' THEN subject_id IS NOT NULL
                          WHEN 'contact' THEN subject_id IS NULL ELSE subject_type IS NULL AND subject_id IS NULL END)
) WITH (toast_tuple_target = 4080);
-- Responses are kept for a week and rarely read, so compressing them would cost more than it saves.
ALTER TABLE idempotency_keys ALTER COLUMN body SET STORAGE MAIN;
CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_subject_idx ON idempotency_keys (store_id, subject_type, subject_id)
    WHERE subject_type IS NOT NULL;
COMMENT ON TABLE idempotency_keys IS 'store';

-- Exact totals without counting: each change appends a delta; maintenance folds the rows.
CREATE SEQUENCE row_count_ids;
CREATE TABLE row_counts (
    store_id bigint NOT NULL,
    resource text   NOT NULL,
    id       bigint NOT NULL DEFAULT nextval('row_count_ids'),
    delta    bigint NOT NULL,
    CONSTRAINT row_counts_pkey PRIMARY KEY (store_id, resource, id)
);
COMMENT ON TABLE row_counts IS 'store';

-- === Events: the outbox ===============================================================================================

-- An event is inserted in the transaction of the change it describes. Unrouted events are in the partition of infinity, the
-- outbox; routing moves an event to the partition of its day, and a day is dropped as a whole.
CREATE SEQUENCE event_positions;
CREATE TABLE events (
    store_id         bigint      NOT NULL,
    id               text        NOT NULL,
    routed_on        date        NOT NULL DEFAULT 'infinity',
    position         bigint      NOT NULL DEFAULT nextval('event_positions'),
    type             text        NOT NULL,
    resource_type    text        NOT NULL,
    resource_id      bigint      NOT NULL,
    resource_version integer     NOT NULL,
    actor            text        NOT NULL,
    changes          text        NOT NULL,
    data             text        NOT NULL,
    request_id       text        NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    audience         bigint,  -- the only app that may receive the event; null: every app with its scope
    parent_version   integer, -- of the product, if the resource is a variant
    CONSTRAINT events_pkey PRIMARY KEY (store_id, id, routed_on)
) PARTITION BY RANGE (routed_on);
CREATE INDEX events_resource_idx ON events (store_id, resource_id);
CREATE TABLE events_unrouted PARTITION OF events FOR VALUES FROM ('infinity') TO (MAXVALUE)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX events_unrouted_bucket_idx ON events_unrouted ((store_id % 64), position);
COMMENT ON TABLE events IS 'store';

-- The router of a bucket of stores (store_id % 64). A router holds a bucket while it routes one batch, until `until` at the
-- latest; then another may take it over. `token` is new with every batch and fences off a late holder.
CREATE TABLE routing_leases (
    bucket     smallint    NOT NULL,
    holder     text        NOT NULL DEFAULT '',
    token      bigint      NOT NULL DEFAULT 0,
    until      timestamptz NOT NULL DEFAULT now(),
    renewed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT routing_leases_pkey PRIMARY KEY (bucket),
    CONSTRAINT routing_leases_bucket_check CHECK (bucket BETWEEN 0 AND 63)
) WITH (fillfactor = 50);
COMMENT ON TABLE routing_leases IS 'local';
INSERT INTO routing_leases (bucket) SELECT generate_series(0, 63);

-- The delivery workers that run, each seen every two seconds; monitoring counts them.
CREATE TABLE delivery_workers (
    name    text        NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT delivery_workers_pkey PRIMARY KEY (name)
) WITH (fillfactor = 50);
COMMENT ON TABLE delivery_workers IS 'local';

-- === Products: the catalog and its stock ==============================================================================

-- A stored document: `head` is the part of a resource's JSON that rarely changes, built by the application; `tail` is the
-- part that changes often, generated from columns. The response is '{"id":' || id || head || tail.

CREATE SEQUENCE product_ids;
CREATE TABLE products (
    store_id    bigint      NOT NULL,
    id          bigint      NOT NULL DEFAULT nextval('product_ids'),
    external_id text,
    slug        text        NOT NULL,
    name        text        NOT NULL,
    status      text        NOT NULL,
    price       bigint      NOT NULL,
    on_hand     bigint      NOT NULL,
    reserved    bigint      NOT NULL,
    in_stock    boolean     NOT NULL,
    version     integer     NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    deleted_at  timestamptz,
    head        text        NOT NULL,
    tail        text        GENERATED ALWAYS AS (
        stock_tail(on_hand, reserved) || ',"in_stock":' || CASE WHEN in_stock THEN 'true' ELSE 'false' END
        || times_tail(created_at, updated_at, version) || ',"deleted_at":null}') STORED,
    CONSTRAINT products_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT products_status_check CHECK (status IN ('active', 'draft', 'archived')),
    CONSTRAINT products_price_check CHECK (price >= 0)
) WITH (fillfactor = 90, toast_tuple_target = 4080, autovacuum_analyze_scale_factor = 0.5);
ALTER TABLE products ALTER COLUMN head SET STORAGE MAIN;
CREATE UNIQUE INDEX products_external_id_key ON products (store_id, external_id) WHERE deleted_at IS NULL;
CREATE INDEX products_status_idx ON products (store_id, status, id) WHERE deleted_at IS NULL;
CREATE INDEX products_name_idx ON products (store_id, name, id) WHERE deleted_at IS NULL;
CREATE INDEX products_price_idx ON products (store_id, price, id) WHERE deleted_at IS NULL;
CREATE INDEX products_created_at_idx ON products (store_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX products_updated_at_idx ON products (store_id, updated_at, id);
COMMENT ON TABLE products IS 'store';

-- Search terms have a table of their own because a product's row is rewritten whenever its stock changes, and the GIN index
-- would be rewritten with it.
CREATE TABLE product_terms (
    store_id   bigint   NOT NULL,
    product_id bigint   NOT NULL,
    terms      tsvector NOT NULL,
    CONSTRAINT product_terms_pkey PRIMARY KEY (store_id, product_id),
    CONSTRAINT product_terms_product_fkey FOREIGN KEY (store_id, product_id) REFERENCES products (store_id, id) ON DELETE CASCADE
);
CREATE INDEX product_terms_idx ON product_terms USING gin (terms);
COMMENT ON TABLE product_terms IS 'store';

CREATE SEQUENCE variant_ids;
CREATE TABLE variants (
    store_id            bigint      NOT NULL,
    id                  bigint      NOT NULL DEFAULT nextval('variant_ids'),
    product_id          bigint      NOT NULL,
    position            integer     NOT NULL,
    sku                 text,
    barcode             text,
    external_id         text,
    options_key         text        NOT NULL,
    price               bigint,     -- null: the product's price
    on_hand             bigint      NOT NULL,
    reserved            bigint      NOT NULL DEFAULT 0,
    other_on_hand       bigint      NOT NULL DEFAULT 0,  -- at locations other than the default: the sum of stock_levels
    other_reserved      bigint      NOT NULL DEFAULT 0,  -- likewise
    track_inventory     boolean     NOT NULL,
    allow_backorder     boolean     NOT NULL,
    low_stock_threshold integer,
    version             integer     NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    deleted_at          timestamptz,
    head                text        NOT NULL,
    tail                text        GENERATED ALWAYS AS (
        stock_tail(on_hand, reserved) || times_tail(created_at, updated_at, version) || '}') STORED,
    CONSTRAINT variants_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT variants_product_fkey FOREIGN KEY (store_id, product_id) REFERENCES products (store_id, id) ON DELETE CASCADE,
    CONSTRAINT variants_price_check CHECK (price >= 0),
    -- Prevents overselling of the default location under any concurrency; stock_levels_stock_check guards the others. If no
    -- location is oversold, the variant is not.
    CONSTRAINT variants_stock_check CHECK (
        reserved >= other_reserved
        AND (reserved - other_reserved <= on_hand - other_on_hand OR allow_backorder OR NOT track_inventory)),
    CONSTRAINT variants_other_stock_check CHECK (other_reserved BETWEEN 0 AND other_on_hand)
) WITH (fillfactor = 85, toast_tuple_target = 4080, autovacuum_analyze_scale_factor = 0.5);
ALTER TABLE variants ALTER COLUMN head SET STORAGE MAIN;
CREATE UNIQUE INDEX variants_sku_key ON variants (store_id, sku) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX variants_external_id_key ON variants (store_id, external_id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX variants_options_key ON variants (store_id, product_id, options_key) WHERE deleted_at IS NULL;
CREATE INDEX variants_barcode_idx ON variants (store_id, barcode) WHERE deleted_at IS NULL;
CREATE INDEX variants_product_idx ON variants (store_id, product_id, position, id) WHERE deleted_at IS NULL;
CREATE INDEX variants_updated_at_idx ON variants (store_id, updated_at, id);
COMMENT ON TABLE variants IS 'store';

-- The places that hold the stock of a store. Every store has the location `default`. A code never changes.
CREATE TABLE locations (
    store_id   bigint      NOT NULL,
    code       text        NOT NULL,
    name       text        NOT NULL,
    address    text,
    priority   integer     NOT NULL,  -- orders reserve at the location with the lowest number first
    active     boolean     NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT locations_pkey PRIMARY KEY (store_id, code),
    CONSTRAINT locations_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT locations_code_check CHECK (code ~ '^[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?$'),
    CONSTRAINT locations_default_check CHECK (active OR code <> 'default')
);
COMMENT ON TABLE locations IS 'store';

-- The stock of a variant at a location other than the default. The default location holds the rest of the variant's stock, so
-- the levels of all locations add up to it, and a store with one location has no row here.
CREATE TABLE stock_levels (
    store_id   bigint NOT NULL,
    variant_id bigint NOT NULL,
    location   text   NOT NULL,
    on_hand    bigint NOT NULL,
    reserved   bigint NOT NULL,
    CONSTRAINT stock_levels_pkey PRIMARY KEY (store_id, variant_id, location),
    CONSTRAINT stock_levels_variant_fkey FOREIGN KEY (store_id, variant_id)
        REFERENCES variants (store_id, id) ON DELETE CASCADE,
    CONSTRAINT stock_levels_location_fkey FOREIGN KEY (store_id, location) REFERENCES locations (store_id, code),
    CONSTRAINT stock_levels_location_check CHECK (location <> 'default'),
    CONSTRAINT stock_levels_stock_check CHECK (reserved BETWEEN 0 AND on_hand)
) WITH (fillfactor = 80);
CREATE INDEX stock_levels_location_idx ON stock_levels (store_id, location, variant_id);
COMMENT ON TABLE stock_levels IS 'store';

-- The ledger: one row for each change of a stock level. `movement_key` ensures that a movement, for example the reservation
-- of one order line, is applied at most once.
CREATE SEQUENCE stock_movement_ids;
CREATE TABLE stock_movements (
    store_id       bigint      NOT NULL,
    id             bigint      NOT NULL DEFAULT nextval('stock_movement_ids'),
    variant_id     bigint      NOT NULL,
    product_id     bigint      NOT NULL,
    sku            text,
    kind           text        NOT NULL,
    location       text        NOT NULL DEFAULT 'default',
    delta_on_hand  bigint      NOT NULL,
    delta_reserved bigint      NOT NULL,
    on_hand_after  bigint      NOT NULL,
    reserved_after bigint      NOT NULL,
    reason         text        NOT NULL,
    reference      text,
    order_id       bigint,
    movement_key   text,
    actor          text        NOT NULL,
    request_id     text        NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT stock_movements_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT stock_movements_variant_fkey FOREIGN KEY (store_id, variant_id)
        REFERENCES variants (store_id, id) ON DELETE CASCADE,
    CONSTRAINT stock_movements_kind_check CHECK (
        kind IN ('set', 'adjust', 'transfer', 'reserve', 'release', 'commit', 'restock', 'import')),
    CONSTRAINT stock_movements_reason_check CHECK (
        reason IN ('restock', 'correction', 'stocktake', 'damaged', 'lost', 'return', 'sync', 'order', 'other'))
);
CREATE UNIQUE INDEX stock_movements_key ON stock_movements (store_id, movement_key) WHERE movement_key IS NOT NULL;
CREATE INDEX stock_movements_variant_idx ON stock_movements (store_id, variant_id, id);
CREATE INDEX stock_movements_product_idx ON stock_movements (store_id, product_id, id);
CREATE INDEX stock_movements_sku_idx ON stock_movements (store_id, sku, id) WHERE sku IS NOT NULL;
CREATE INDEX stock_movements_reference_idx ON stock_movements (store_id, reference, id) WHERE reference IS NOT NULL;
CREATE INDEX stock_movements_order_idx ON stock_movements (store_id, order_id, id) WHERE order_id IS NOT NULL;
CREATE INDEX stock_movements_created_at_idx ON stock_movements (store_id, created_at, id);
COMMENT ON TABLE stock_movements IS 'store';

-- === Customers ========================================================================================================

-- The response is '{"id":' || id || head || shown || tail. `shown` is the metadata: the shared part first, then each app's
-- own part between two separators. A caller receives the shared part and its own.
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
    email_consent text,       -- the state in consents; null: never asked
    sms_consent   text,
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
    CONSTRAINT customers_status_check CHECK (status IN ('active', 'disabled', 'erased')),
    CONSTRAINT customers_consent_check CHECK (
        email_consent IN ('subscribed', 'unsubscribed', 'pending') AND sms_consent IN ('subscribed', 'unsubscribed', 'pending')),
    CONSTRAINT customers_erased_check CHECK ((status = 'erased') = (deleted_at IS NOT NULL))
) WITH (fillfactor = 90, toast_tuple_target = 4080);
ALTER TABLE customers ALTER COLUMN head SET STORAGE MAIN;
CREATE UNIQUE INDEX customers_email_key ON customers (store_id, email_key) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX customers_phone_key ON customers (store_id, phone) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX customers_external_id_key ON customers (store_id, external_id) WHERE deleted_at IS NULL;
CREATE INDEX customers_status_idx ON customers (store_id, status, id);
CREATE INDEX customers_email_consent_idx ON customers (store_id, email_consent, id)
    WHERE deleted_at IS NULL AND email_consent IS NOT NULL;
CREATE INDEX customers_sms_consent_idx ON customers (store_id, sms_consent, id)
    WHERE deleted_at IS NULL AND sms_consent IS NOT NULL;
CREATE INDEX customers_last_name_idx ON customers (store_id, coalesce(last_name, ''), id) WHERE deleted_at IS NULL;
CREATE INDEX customers_orders_count_idx ON customers (store_id, orders_count, id) WHERE deleted_at IS NULL;
CREATE INDEX customers_total_spent_idx ON customers (store_id, total_spent, id) WHERE deleted_at IS NULL;
CREATE INDEX customers_last_order_at_idx
    ON customers (store_id, coalesce(last_order_at, '1970-01-01 00:00:00+00'::timestamptz), id) WHERE deleted_at IS NULL;
CREATE INDEX customers_created_at_idx ON customers (store_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX customers_updated_at_idx ON customers (store_id, updated_at, id);
CREATE INDEX customers_terms_idx ON customers USING gin (terms);
COMMENT ON TABLE customers IS 'store';

-- Metadata entries with their author; `customers.shown` repeats the values. An entry without an app is shared by all apps.
CREATE TABLE customer_metadata (
    store_id    bigint      NOT NULL,
    customer_id bigint      NOT NULL,
    app_id      bigint,                -- the owner; null: shared
    key         text        NOT NULL,
    value       text        NOT NULL,  -- JSON
    updated_at  timestamptz NOT NULL,
    updated_by  bigint,                -- an app; null: an operator
    CONSTRAINT customer_metadata_key UNIQUE NULLS NOT DISTINCT (store_id, customer_id, app_id, key),
    CONSTRAINT customer_metadata_customer_fkey FOREIGN KEY (store_id, customer_id)
        REFERENCES customers (store_id, id) ON DELETE CASCADE
);
COMMENT ON TABLE customer_metadata IS 'store';

-- === Imports ==========================================================================================================

CREATE SEQUENCE import_numbers;
CREATE TABLE imports (
    store_id          bigint      NOT NULL,
    id                text        NOT NULL,
    number            bigint      NOT NULL DEFAULT nextval('import_numbers'),  -- the resource id of its events
    resource          text        NOT NULL,
    status            text        NOT NULL DEFAULT 'queued',
    options           text        NOT NULL,
    media             text        NOT NULL,
    header            text,       -- of a CSV file: its delimiter and columns
    app_id            bigint,     -- null: an operator imports
    scopes            text[],     -- of the app when it uploaded the file; null: an operator imports
    request_id        text        NOT NULL,
    total             integer     NOT NULL,
    checked           integer     NOT NULL DEFAULT 0,  -- rows validated before any is written, if one fault aborts the job
    processed         integer     NOT NULL DEFAULT 0,
    created           integer     NOT NULL DEFAULT 0,
    updated           integer     NOT NULL DEFAULT 0,
    unchanged         integer     NOT NULL DEFAULT 0,
    archived          integer     NOT NULL DEFAULT 0,
    failed            integer     NOT NULL DEFAULT 0,
    failure           text,       -- why the whole job failed, if no row caused it
    version           integer     NOT NULL DEFAULT 1,
    created_at        timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz,
    finished_at       timestamptz,
    report_expires_at timestamptz NOT NULL DEFAULT now() + interval '30 days',
    expired           boolean     NOT NULL DEFAULT false,
    CONSTRAINT imports_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT imports_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT imports_status_check CHECK (
        status IN ('queued', 'running', 'succeeded', 'partially_succeeded', 'failed'))
) WITH (fillfactor = 50);
CREATE INDEX imports_report_expires_at_idx ON imports (report_expires_at) WHERE NOT expired;
COMMENT ON TABLE imports IS 'store';

-- The uploaded rows, unchanged, a few hundred to a part. The runner executes one part in one transaction.
CREATE TABLE import_parts (
    store_id  bigint  NOT NULL,
    import_id text    NOT NULL,
    part      integer NOT NULL,
    first_row integer NOT NULL,
    data      bytea   NOT NULL,
    CONSTRAINT import_parts_pkey PRIMARY KEY (store_id, import_id, part),
    CONSTRAINT import_parts_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE
);
ALTER TABLE import_parts ALTER COLUMN data SET STORAGE EXTERNAL;  -- compressed already
COMMENT ON TABLE import_parts IS 'store';

-- The result of each row. `raw` is kept only for a failed row, so that it can be corrected and sent again.
CREATE TABLE import_rows (
    store_id  bigint  NOT NULL,
    import_id text    NOT NULL,
    row       integer NOT NULL,
    status    text    NOT NULL,
    result_id bigint,
    key       text    NOT NULL,
    errors    text,
    changes   text,
    raw       text,
    CONSTRAINT import_rows_pkey PRIMARY KEY (store_id, import_id, row),
    CONSTRAINT import_rows_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE,
    CONSTRAINT import_rows_status_check CHECK (status IN ('created', 'updated', 'unchanged', 'failed'))
);
CREATE INDEX import_rows_failed_idx ON import_rows (store_id, import_id, row) WHERE status = 'failed';
CREATE INDEX import_rows_result_idx ON import_rows (store_id, result_id) WHERE result_id IS NOT NULL;
COMMENT ON TABLE import_rows IS 'store';

-- Unfinished jobs. The owner of the lease runs the job; an expired lease is taken over at `next_part`. A lane is one of the
-- two slots that an app has in a store; the unique index gives a slot to one job at a time.
CREATE TABLE import_queue (
    store_id    bigint      NOT NULL,
    import_id   text        NOT NULL,
    app_id      bigint,     -- null: an operator imports
    lane        smallint,
    next_part   integer     NOT NULL DEFAULT 0,
    tries       integer     NOT NULL DEFAULT 0,  -- claims since the last completed part
    lease_owner text        NOT NULL DEFAULT '',
    lease_until timestamptz NOT NULL DEFAULT now(),
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT import_queue_pkey PRIMARY KEY (store_id, import_id),
    CONSTRAINT import_queue_import_fkey FOREIGN KEY (store_id, import_id)
        REFERENCES imports (store_id, id) ON DELETE CASCADE,
    CONSTRAINT import_queue_lane_check CHECK (lane BETWEEN 1 AND 2)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX import_queue_lane_key ON import_queue (store_id, app_id, lane) NULLS NOT DISTINCT WHERE lane IS NOT NULL;
CREATE INDEX import_queue_created_at_idx ON import_queue (created_at);
COMMENT ON TABLE import_queue IS 'store';

-- === Orders ===========================================================================================================

-- The response is '{"id":' || id || head || ',"line_items":' || lines || person || tail: `head` describes the purchase,
-- `lines` what was bought, `person` the buyer (the part that erasure replaces), `tail` the count, times and version.
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
    basket               bytea       NOT NULL,  -- digest of the line items
    address              bytea,      -- digest of the shipping address
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
ALTER TABLE orders ALTER COLUMN head SET STORAGE MAIN, ALTER COLUMN lines SET STORAGE MAIN,
    ALTER COLUMN person SET STORAGE MAIN;
CREATE UNIQUE INDEX orders_external_id_key ON orders (store_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX orders_status_idx ON orders (store_id, status, id);
CREATE INDEX orders_payment_status_idx ON orders (store_id, payment_status, id);
CREATE INDEX orders_fulfillment_status_idx ON orders (store_id, fulfillment_status, id);
-- The next three serve the filters and the search for suspected duplicates in a time window.
CREATE INDEX orders_customer_idx ON orders (store_id, customer_id, placed_at) WHERE customer_id IS NOT NULL;
CREATE INDEX orders_email_idx ON orders (store_id, email, placed_at) WHERE email IS NOT NULL;
CREATE INDEX orders_phone_idx ON orders (store_id, phone, placed_at) WHERE phone IS NOT NULL;
CREATE INDEX orders_total_idx ON orders (store_id, total, id);
CREATE INDEX orders_placed_at_idx ON orders (store_id, placed_at, id);
CREATE INDEX orders_created_at_idx ON orders (store_id, created_at, id);
CREATE INDEX orders_updated_at_idx ON orders (store_id, updated_at, id);
CREATE INDEX orders_duplicate_of_idx ON orders (store_id, duplicate_of) WHERE duplicate_of IS NOT NULL;
CREATE INDEX orders_suspected_idx ON orders (store_id, (suspected_duplicates > 0), id);
CREATE INDEX orders_terms_idx ON orders USING gin (terms);
COMMENT ON TABLE orders IS 'store';

-- The line items as rows too, so that orders can be found by SKU and quantities are constrained.
CREATE SEQUENCE order_line_ids;
CREATE TABLE order_lines (
    store_id           bigint  NOT NULL,
    order_id           bigint  NOT NULL,
    id                 bigint  NOT NULL,
    variant_id         bigint,  -- null for a custom line item
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
COMMENT ON TABLE order_lines IS 'store';

-- The timeline: comments and recorded changes. Entries never change.
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
-- Erasure searches the entries that record a change of contact.
CREATE INDEX order_comments_contact_idx ON order_comments (store_id, order_id) WHERE type = 'edit' AND changes LIKE '%"contact":%';
COMMENT ON TABLE order_comments IS 'store';

-- Pairs of suspected duplicates; `order_id` is the later order.
CREATE TABLE order_duplicates (
    store_id      bigint   NOT NULL,
    order_id      bigint   NOT NULL,
    other_id      bigint   NOT NULL,
    score         smallint NOT NULL,  -- in hundredths
    reasons       text     NOT NULL,  -- JSON
    seconds_apart bigint   NOT NULL,
    CONSTRAINT order_duplicates_pkey PRIMARY KEY (store_id, order_id, other_id),
    CONSTRAINT order_duplicates_order_fkey FOREIGN KEY (store_id, order_id) REFERENCES orders (store_id, id) ON DELETE CASCADE,
    CONSTRAINT order_duplicates_other_fkey FOREIGN KEY (store_id, other_id) REFERENCES orders (store_id, id) ON DELETE CASCADE
);
CREATE INDEX order_duplicates_other_idx ON order_duplicates (store_id, other_id);
COMMENT ON TABLE order_duplicates IS 'store';

-- The last order number that each store used.
CREATE TABLE order_numbers (
    store_id bigint NOT NULL,
    last     bigint NOT NULL,
    CONSTRAINT order_numbers_pkey PRIMARY KEY (store_id),
    CONSTRAINT order_numbers_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE
) WITH (fillfactor = 50);
COMMENT ON TABLE order_numbers IS 'store';

-- === Webhooks: subscriptions, lanes and deliveries ====================================================================

-- Workers poll the queues of all stores by bucket (store_id % 64).

CREATE SEQUENCE webhook_ids;
CREATE TABLE webhooks (
    store_id              bigint      NOT NULL,
    id                    bigint      NOT NULL DEFAULT nextval('webhook_ids'),
    app_id                bigint      NOT NULL,
    of_app                boolean     NOT NULL DEFAULT false,  -- the app's own endpoint: a copy of its app_callbacks
    name                  text        NOT NULL DEFAULT '',
    url                   text,       -- null: nothing is sent; the app reads the feed
    events                text[]      NOT NULL,
    filter                text        NOT NULL DEFAULT '{}',
    fields                text[]      NOT NULL DEFAULT '{}',
    payload               text        NOT NULL DEFAULT 'full',
    ordering              text        NOT NULL DEFAULT 'none',
    skip_own              boolean     NOT NULL DEFAULT false,
    header_names          text[]      NOT NULL DEFAULT '{}',
    sealed_headers        bytea,      -- a JSON object of all custom headers
    sealed_secret         bytea       NOT NULL,
    sealed_old_secret     bytea,      -- also signs until old_secret_expires_at
    old_secret_expires_at timestamptz,
    same_key              bytea       NOT NULL,  -- digest of url and events: an app has one subscription for each
    status                text        NOT NULL DEFAULT 'active',
    disabled_reason       text,
    max_in_flight         integer     NOT NULL DEFAULT 10,
    rate_per_s            integer,
    skip_before           timestamptz,           -- on resume: deliveries older than this are skipped
    ended_at              timestamptz,           -- deleted or uninstalled: hidden from the API
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    version               integer     NOT NULL DEFAULT 1,
    CONSTRAINT webhooks_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT webhooks_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT webhooks_payload_check CHECK (payload IN ('full', 'thin')),
    CONSTRAINT webhooks_ordering_check CHECK (ordering IN ('none', 'resource')),
    CONSTRAINT webhooks_status_check CHECK (status IN ('active', 'paused', 'disabled')),
    CONSTRAINT webhooks_pace_check CHECK (max_in_flight BETWEEN 1 AND 100 AND rate_per_s > 0)
);
CREATE UNIQUE INDEX webhooks_same_key ON webhooks (store_id, app_id, same_key) WHERE ended_at IS NULL;
CREATE INDEX webhooks_ended_idx ON webhooks (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX webhooks_of_app_idx ON webhooks (app_id, store_id) WHERE of_app AND ended_at IS NULL;
COMMENT ON TABLE webhooks IS 'store';

-- One lane for each subscription. A worker may lease a lane whose due_at has passed; the owner postpones due_at while it works.
CREATE TABLE lanes (
    store_id           bigint      NOT NULL,
    webhook_id         bigint      NOT NULL,
    next_sequence      bigint      NOT NULL DEFAULT 1,
    waiting            bigint      NOT NULL DEFAULT 0,       -- rows of pending_deliveries
    due_at             timestamptz,                          -- null: nothing to do
    owner              text        NOT NULL DEFAULT '',      -- the worker that leases the lane; empty: none
    epoch              bigint      NOT NULL DEFAULT 0,       -- increases with each lease and each outside change of state
    lease_until        timestamptz,
    hold_until         timestamptz,                          -- the next probe, or the receiver's Retry-After
    breaker            text        NOT NULL DEFAULT 'closed',
    probes             integer     NOT NULL DEFAULT 0,
    failures           integer     NOT NULL DEFAULT 0,       -- consecutive
    window_at          timestamptz,                          -- start of the minute in which attempts are counted
    window_total       integer     NOT NULL DEFAULT 0,
    window_failed      integer     NOT NULL DEFAULT 0,
    failing_since      timestamptz,                          -- the first failed attempt since the last success
    failing_event_sent boolean     NOT NULL DEFAULT false,   -- whether webhook.failing was emitted in this outage
    last_success_at    timestamptz,
    last_attempt_at    timestamptz,
    CONSTRAINT lanes_pkey PRIMARY KEY (store_id, webhook_id),
    CONSTRAINT lanes_breaker_check CHECK (breaker IN ('closed', 'open'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX lanes_due_idx ON lanes ((store_id % 64), due_at) WHERE due_at IS NOT NULL;
COMMENT ON TABLE lanes IS 'store';

-- Only deliveries that are not sent yet, so that the table stays small and the queue fast. A delivery that waits for an
-- earlier one of its resource is due at infinity.
CREATE TABLE pending_deliveries (
    store_id         bigint      NOT NULL,
    webhook_id       bigint      NOT NULL,
    sequence         bigint      NOT NULL,
    event_id         text        NOT NULL,
    event_day        date        NOT NULL,
    event_type       text        NOT NULL,
    resource_type    text        NOT NULL,
    resource_id      bigint      NOT NULL,
    resource_version integer     NOT NULL,
    ordered_by       text,       -- its resource, if the subscription asks for order
    redelivery_of    bigint,     -- the sequence of an earlier delivery
    due_at           timestamptz NOT NULL,
    attempt_count    integer     NOT NULL DEFAULT 0,
    attempts         text        NOT NULL DEFAULT '[]',
    created_at       timestamptz NOT NULL,
    CONSTRAINT pending_deliveries_pkey PRIMARY KEY (store_id, webhook_id, sequence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX pending_deliveries_due_idx ON pending_deliveries (store_id, webhook_id, due_at, sequence);
CREATE INDEX pending_deliveries_order_idx ON pending_deliveries (store_id, webhook_id, ordered_by, sequence)
    WHERE ordered_by IS NOT NULL;
COMMENT ON TABLE pending_deliveries IS 'store';

-- Finished deliveries, kept for thirty days and then dropped with their day.
CREATE TABLE deliveries (
    store_id         bigint      NOT NULL,
    webhook_id       bigint      NOT NULL,
    sequence         bigint      NOT NULL,
    finished_on      date        NOT NULL,
    event_id         text        NOT NULL,
    event_day        date        NOT NULL,
    event_type       text        NOT NULL,
    resource_type    text        NOT NULL,
    resource_id      bigint      NOT NULL,
    resource_version integer     NOT NULL,
    redelivery_of    bigint,
    status           text        NOT NULL,
    attempt_count    integer     NOT NULL,
    attempts         text        NOT NULL,
    created_at       timestamptz NOT NULL,
    finished_at      timestamptz NOT NULL,
    CONSTRAINT deliveries_pkey PRIMARY KEY (store_id, webhook_id, sequence, finished_on),
    CONSTRAINT deliveries_status_check CHECK (status IN ('succeeded', 'failed', 'skipped', 'cancelled'))
) PARTITION BY RANGE (finished_on);
CREATE INDEX deliveries_resource_idx ON deliveries (store_id, resource_id);
COMMENT ON TABLE deliveries IS 'store';

-- The delivery log: pending and finished deliveries in one form.
CREATE VIEW delivery_log AS
    SELECT store_id, webhook_id, sequence, event_id, event_day, event_type,
           resource_type, resource_id, resource_version, redelivery_of, status, attempt_count, attempts,
           NULL::timestamptz AS next_attempt_at, created_at, finished_at
      FROM deliveries
     UNION ALL
    SELECT store_id, webhook_id, sequence, event_id, event_day, event_type,
           resource_type, resource_id, resource_version, redelivery_of, CASE WHEN attempts = '[]' THEN 'pending' ELSE 'retrying' END,
           attempt_count, attempts, due_at, created_at, NULL::timestamptz
      FROM pending_deliveries;

-- Subscriptions as the router and the lane runner read them: events, receiver, limits, and the scopes that the app has now.
CREATE VIEW subscriptions AS
    SELECT w.store_id, w.id, w.app_id, w.events, w.filter, w.skip_own, w.ordering = 'resource' AS ordered,
           i.scopes AS granted_scopes, w.of_app, w.url, w.payload, w.fields, w.sealed_headers, w.sealed_secret,
           CASE WHEN w.old_secret_expires_at > now() THEN w.sealed_old_secret END AS sealed_old_secret,
           w.status, w.max_in_flight, w.rate_per_s, w.skip_before, w.ended_at IS NOT NULL AS ended,
           a.status <> 'active' OR s.status <> 'active' AS suspended,
           s.handle AS store_handle, s.name AS store_name, s.currency, s.timezone, s.locale
      FROM webhooks w
           JOIN apps a ON a.id = w.app_id
           JOIN stores s ON s.id = w.store_id
           LEFT JOIN installations i ON i.store_id = w.store_id AND i.app_id = w.app_id;

-- Delivery counts of each subscription by hour; a day is the sum of 24 rows.
CREATE TABLE delivery_hours (
    store_id        bigint      NOT NULL,
    webhook_id      bigint      NOT NULL,
    hour            timestamptz NOT NULL,
    succeeded       bigint      NOT NULL,
    failed          bigint      NOT NULL,
    attempts        bigint      NOT NULL,
    failed_attempts bigint      NOT NULL,
    duration_ms     bigint      NOT NULL,  -- of all attempts
    CONSTRAINT delivery_hours_pkey PRIMARY KEY (store_id, webhook_id, hour)
) WITH (fillfactor = 50);
COMMENT ON TABLE delivery_hours IS 'store';

-- Jobs that send deliveries again, by sequence or by time range, in slices that start at next_sequence.
CREATE SEQUENCE redelivery_ids;
CREATE TABLE redeliveries (
    store_id      bigint      NOT NULL,
    id            bigint      NOT NULL DEFAULT nextval('redelivery_ids'),
    webhook_id    bigint      NOT NULL,
    sequences     bigint[],   -- null: the time range
    since         timestamptz,
    until         timestamptz,
    status        text,       -- null: any
    rate_per_s    integer,
    next_sequence bigint      NOT NULL DEFAULT 0,
    queued        bigint      NOT NULL DEFAULT 0,
    due_at        timestamptz NOT NULL DEFAULT now(),
    created_at    timestamptz NOT NULL DEFAULT now(),
    finished_at   timestamptz,
    CONSTRAINT redeliveries_pkey PRIMARY KEY (store_id, id),
    CONSTRAINT redeliveries_webhook_fkey FOREIGN KEY (store_id, webhook_id)
        REFERENCES webhooks (store_id, id) ON DELETE CASCADE
);
CREATE INDEX redeliveries_due_idx ON redeliveries (due_at) WHERE finished_at IS NULL;
COMMENT ON TABLE redeliveries IS 'store';

-- === Usage ============================================================================================================

-- Request counts of each app in each store by day. There is no foreign key to stores: a row of a missing store must not
-- block the counts of all others; it expires. ms_5 counts requests that took more than the previous bound and at most 5
-- milliseconds.
CREATE TABLE usage_days (
    store_id      bigint NOT NULL,
    app_id        bigint NOT NULL,
    day           date   NOT NULL,
    operation     text   NOT NULL,
    requests      bigint NOT NULL,
    client_errors bigint NOT NULL,  -- 4xx except 429
    rate_limited  bigint NOT NULL,  -- 429
    server_errors bigint NOT NULL,  -- 5xx
    total_us      bigint NOT NULL,  -- duration of all requests
    ms_1          bigint NOT NULL,
    ms_2          bigint NOT NULL,
    ms_5          bigint NOT NULL,
    ms_10         bigint NOT NULL,
    ms_20         bigint NOT NULL,
    ms_50         bigint NOT NULL,
    ms_100        bigint NOT NULL,
    ms_200        bigint NOT NULL,
    ms_500        bigint NOT NULL,
    ms_1000       bigint NOT NULL,
    ms_2000       bigint NOT NULL,
    ms_5000       bigint NOT NULL,
    ms_more       bigint NOT NULL,
    CONSTRAINT usage_days_pkey PRIMARY KEY (store_id, app_id, day, operation)
) WITH (fillfactor = 60);
CREATE INDEX usage_days_app_idx ON usage_days (app_id, day);
CREATE INDEX usage_days_day_idx ON usage_days (day);
COMMENT ON TABLE usage_days IS 'store';

-- The latest failed requests of an app in a store: reason and request id, nothing that the caller sent.
CREATE SEQUENCE failed_request_ids;
CREATE TABLE failed_requests (
    store_id      bigint      NOT NULL,
    app_id        bigint      NOT NULL,
    at            timestamptz NOT NULL,
    id            bigint      NOT NULL DEFAULT nextval('failed_request_ids'),
    request_id    text        NOT NULL,
    method        text        NOT NULL,
    operation     text        NOT NULL,
    status        integer     NOT NULL,
    code          text        NOT NULL,
    fault_pointer text        NOT NULL,  -- of the first fault; empty if there is none
    fault_code    text        NOT NULL,
    duration_us   bigint      NOT NULL,
    CONSTRAINT failed_requests_pkey PRIMARY KEY (store_id, app_id, at, id)
);
CREATE INDEX failed_requests_app_idx ON failed_requests (app_id, at, id);
CREATE INDEX failed_requests_at_idx ON failed_requests (at);
COMMENT ON TABLE failed_requests IS 'store';

-- === Planner settings =================================================================================================

-- One plan of a statement serves all stores, and the planner would make it for a store of average size. If most stores are
-- small, it considers reading a whole store cheap, and an order in a large store reads a hundred thousand rows. n_distinct = 1
-- makes it assume that all rows may belong to one store.
ALTER TABLE products ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE product_terms ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE variants ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE stock_movements ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE stock_levels ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE customers ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE customer_metadata ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE orders ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE order_lines ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE order_comments ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE order_duplicates ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE import_rows ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE idempotency_keys ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE events_unrouted ALTER COLUMN store_id SET (n_distinct = 1);

-- A sample misses a status that few rows have; the number of statuses is known. A list of a rare status then uses its index.
ALTER TABLE products ALTER COLUMN status SET (n_distinct = 3);
ALTER TABLE customers ALTER COLUMN status SET (n_distinct = 3);
ALTER TABLE customers ALTER COLUMN email_consent SET (n_distinct = 3);
ALTER TABLE customers ALTER COLUMN sms_consent SET (n_distinct = 3);
ALTER TABLE orders ALTER COLUMN status SET (n_distinct = 9);
ALTER TABLE orders ALTER COLUMN payment_status SET (n_distinct = 7);
ALTER TABLE orders ALTER COLUMN fulfillment_status SET (n_distinct = 4);

-- Nothing filters by the text of a document or of search terms: collecting statistics on them would only take time.
ALTER TABLE products ALTER COLUMN head SET STATISTICS 0, ALTER COLUMN tail SET STATISTICS 0;
ALTER TABLE product_terms ALTER COLUMN terms SET STATISTICS 0;
ALTER TABLE variants ALTER COLUMN head SET STATISTICS 0, ALTER COLUMN tail SET STATISTICS 0;
ALTER TABLE customers ALTER COLUMN head SET STATISTICS 0, ALTER COLUMN shown SET STATISTICS 0,
    ALTER COLUMN tail SET STATISTICS 0, ALTER COLUMN terms SET STATISTICS 0;
ALTER TABLE orders ALTER COLUMN head SET STATISTICS 0, ALTER COLUMN lines SET STATISTICS 0,
    ALTER COLUMN person SET STATISTICS 0, ALTER COLUMN tail SET STATISTICS 0, ALTER COLUMN terms SET STATISTICS 0;
ALTER TABLE order_comments ALTER COLUMN body SET STATISTICS 0, ALTER COLUMN changes SET STATISTICS 0;
ALTER TABLE idempotency_keys ALTER COLUMN body SET STATISTICS 0, ALTER COLUMN headers SET STATISTICS 0;
ALTER TABLE events ALTER COLUMN data SET STATISTICS 0, ALTER COLUMN changes SET STATISTICS 0;
ALTER TABLE pending_deliveries ALTER COLUMN attempts SET STATISTICS 0;
ALTER TABLE deliveries ALTER COLUMN attempts SET STATISTICS 0;

-- === Day partitions ===================================================================================================

-- The first days. Maintenance creates the following ones. A day copies the planner settings of its table.
SELECT make_day(t.name, current_date + d) FROM unnest(ARRAY['events', 'deliveries']) AS t (name), generate_series(-1, 7) AS d;
