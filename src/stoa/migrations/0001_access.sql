-- Who may do what: stores, apps, installations, credentials; and what every request leans on.
-- Tables commented 'global' are looked up without a store (reference tables on a cluster);
-- every other table is owned by a store and carries store_id first in each key.

CREATE SEQUENCE store_ids;
CREATE TABLE stores (
    id         bigint      NOT NULL DEFAULT nextval('store_ids'),
    handle     text        NOT NULL,
    name       text        NOT NULL,
    currency   text        NOT NULL,
    status     text        NOT NULL DEFAULT 'active',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
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
    CONSTRAINT apps_status_check CHECK (status IN ('active', 'suspended'))
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

CREATE TABLE tokens (
    token_hash bytea       NOT NULL,
    app_id     bigint      NOT NULL,
    store_id   bigint,                -- set when the token is bound to one store
    scopes     text[],                -- set when the token asked for less than was granted
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT tokens_pkey PRIMARY KEY (token_hash),
    CONSTRAINT tokens_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT tokens_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE
);
CREATE INDEX tokens_expires_at_idx ON tokens (expires_at);
COMMENT ON TABLE tokens IS 'global';

-- Failed tries to authenticate, by client and by address, so that guessing slows down on every worker alike.
CREATE UNLOGGED TABLE failed_tries (
    subject    text        NOT NULL,
    failures   integer     NOT NULL,
    first_at   timestamptz NOT NULL,
    CONSTRAINT failed_tries_pkey PRIMARY KEY (subject)
);
COMMENT ON TABLE failed_tries IS 'global';

CREATE TABLE installations (
    store_id         bigint      NOT NULL,
    app_id           bigint      NOT NULL,
    scopes           text[]      NOT NULL,
    rate_burst       integer,
    rate_refill      integer,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT installations_pkey PRIMARY KEY (store_id, app_id),
    CONSTRAINT installations_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT installations_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT installations_rate_check CHECK (rate_burst > 0 AND rate_refill > 0)
);
CREATE INDEX installations_app_idx ON installations (app_id);

-- A bucket is state of the moment: losing it in a crash refills it, so it need not be logged.
CREATE UNLOGGED TABLE rate_buckets (
    store_id    bigint           NOT NULL,
    app_id      bigint           NOT NULL,
    level       double precision NOT NULL,  -- what was there before the last taking
    tokens      double precision NOT NULL,  -- what is left since
    refilled_at timestamptz      NOT NULL,
    CONSTRAINT rate_buckets_pkey PRIMARY KEY (store_id, app_id)
) WITH (fillfactor = 50);

-- Takes up to `wanted` tokens and says how many were there to take; one row lock makes it exact for every worker.
CREATE FUNCTION take_tokens(
    in_store_id bigint, in_app_id bigint, wanted double precision, burst double precision, refill double precision,
    OUT granted double precision, OUT remaining double precision
) LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    LOOP
        UPDATE rate_buckets b
           SET level = least(burst, b.tokens + refill * greatest(0, extract(epoch FROM moment - b.refilled_at))),
               tokens = least(burst, b.tokens + refill * greatest(0, extract(epoch FROM moment - b.refilled_at)))
                      - least(wanted, floor(
                        least(burst, b.tokens + refill * greatest(0, extract(epoch FROM moment - b.refilled_at))))),
               refilled_at = greatest(moment, b.refilled_at)
         WHERE b.store_id = in_store_id AND b.app_id = in_app_id
        RETURNING b.level - b.tokens, b.tokens INTO granted, remaining;
        EXIT WHEN FOUND;
        INSERT INTO rate_buckets (store_id, app_id, level, tokens, refilled_at)
        VALUES (in_store_id, in_app_id, burst, burst, moment) ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

CREATE TABLE idempotency_keys (
    store_id    bigint      NOT NULL,
    app_id      bigint      NOT NULL,
    key         text        NOT NULL,
    fingerprint bytea       NOT NULL,
    status      integer,
    headers     text,
    body        bytea,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (store_id, app_id, key),
    CONSTRAINT idempotency_keys_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE
) WITH (toast_tuple_target = 4080);
-- An answer is kept for a day and hardly ever read: packing it would take longer than all else that is done with it.
ALTER TABLE idempotency_keys ALTER COLUMN body SET STORAGE MAIN, ALTER COLUMN body SET STATISTICS 0,
    ALTER COLUMN headers SET STATISTICS 0;
CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at);

-- Claims a key for this transaction. A racing claim waits a moment, then fails with lock_timeout: the key is in flight.
CREATE FUNCTION claim_key(
    in_store_id bigint, in_app_id bigint, in_key text, in_fingerprint bytea,
    OUT claimed boolean, OUT fingerprint bytea, OUT status integer, OUT headers text, OUT body bytea
) LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
BEGIN
    INSERT INTO idempotency_keys (store_id, app_id, key, fingerprint)
    VALUES (in_store_id, in_app_id, in_key, in_fingerprint) ON CONFLICT DO NOTHING;
    claimed := FOUND;
    IF NOT claimed THEN
        SELECT k.fingerprint, k.status, k.headers, k.body INTO fingerprint, status, headers, body
          FROM idempotency_keys k WHERE k.store_id = in_store_id AND k.app_id = in_app_id AND k.key = in_key;
    END IF;
END $$;

-- Exact totals without counting: each change appends what it added; a background task folds the rows.
CREATE SEQUENCE row_count_ids;
CREATE TABLE row_counts (
    store_id bigint NOT NULL,
    resource text   NOT NULL,
    id       bigint NOT NULL DEFAULT nextval('row_count_ids'),
    delta    bigint NOT NULL,
    CONSTRAINT row_counts_pkey PRIMARY KEY (store_id, resource, id),
    CONSTRAINT row_counts_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE
);

-- The outbox: what happened, written in the transaction in which it happened. What no router has seen yet lies in the
-- partition of infinity; to route an event is to move it to the partition of its day, which is dropped as a whole later.
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
    CONSTRAINT events_pkey PRIMARY KEY (store_id, id, routed_on)
) PARTITION BY RANGE (routed_on);
CREATE INDEX events_resource_idx ON events (store_id, resource_id);
CREATE TABLE events_unrouted PARTITION OF events FOR VALUES FROM ('infinity') TO (MAXVALUE)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE events_unrouted ALTER COLUMN data SET STATISTICS 0, ALTER COLUMN changes SET STATISTICS 0;
CREATE INDEX events_unrouted_bucket_idx ON events_unrouted ((store_id % 64), position);

-- Append-only, each entry sealed with the hash of the one before; store 0 holds what concerns no single store.
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
