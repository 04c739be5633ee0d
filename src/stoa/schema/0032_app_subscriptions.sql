-- The subscriptions that an app declares once for all stores that install it. A background duty copies each revision to the
-- stores; "applied_store_id" is the last store that has it, so that the duty continues there after a crash.
CREATE SEQUENCE app_subscription_ids;
CREATE TABLE app_subscriptions (
    id               bigint NOT NULL DEFAULT nextval('app_subscription_ids'),
    app_id           bigint NOT NULL,
    name             text NOT NULL,
    url              text,
    events           text[] NOT NULL,
    filter           text NOT NULL DEFAULT '{}',
    changed          text[] NOT NULL DEFAULT '{}',
    fields           text[] NOT NULL DEFAULT '{}',
    payload          text NOT NULL DEFAULT 'full',
    ordering         text NOT NULL DEFAULT 'none',
    skip_own         boolean NOT NULL DEFAULT false,
    max_in_flight    integer NOT NULL DEFAULT 10,
    rate_per_s       integer,
    revision         integer NOT NULL DEFAULT 1,
    removed_at       timestamptz,
    applied_revision integer NOT NULL DEFAULT 0,
    applied_store_id bigint NOT NULL DEFAULT 0,
    applied_stores   integer NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    applied_at       timestamptz,
    CONSTRAINT app_subscriptions_pkey PRIMARY KEY (id),
    CONSTRAINT app_subscriptions_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX app_subscriptions_name ON app_subscriptions (app_id, name) WHERE removed_at IS NULL;
CREATE INDEX app_subscriptions_unapplied_idx ON app_subscriptions (id) WHERE applied_revision < revision;
COMMENT ON TABLE app_subscriptions IS 'global';

-- Stores to which a revision could not be copied; the duty tries again.
CREATE TABLE app_subscription_failures (
    subscription_id bigint NOT NULL,
    store_id        bigint NOT NULL,
    error           text NOT NULL,
    failed_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT app_subscription_failures_pkey PRIMARY KEY (subscription_id, store_id),
    CONSTRAINT app_subscription_failures_subscription_fkey FOREIGN KEY (subscription_id)
        REFERENCES app_subscriptions (id) ON DELETE CASCADE
);
COMMENT ON TABLE app_subscription_failures IS 'global';

-- The declaration that manages a subscription of a store, and its revision; null for those that the app created on the store.
ALTER TABLE webhooks ADD COLUMN managed_by bigint;
ALTER TABLE webhooks ADD COLUMN managed_revision integer;

-- A managed subscription signs with the secrets of its app, which are bound to the app.
CREATE OR REPLACE VIEW event_subscriptions AS
    SELECT w.store_id, w.id, w.app_id, w.events, w.filter, w.changed, w.skip_own, w.ordering = 'resource' AS ordered,
           bounded_scopes(i.scopes, w.readable) AS granted_scopes, w.of_app, w.url, w.payload, w.fields, w.sealed_headers, coalesce(c.sealed_secret, w.sealed_secret) AS sealed_secret,
           CASE WHEN coalesce(c.old_secret_expires_at, w.old_secret_expires_at) > now()
                THEN coalesce(c.sealed_old_secret, w.sealed_old_secret) END AS sealed_old_secret,
           w.status, w.max_in_flight, w.rate_per_s, w.skip_before, w.ended_at IS NOT NULL AS ended,
           a.status <> 'active' OR s.status <> 'active' AS suspended,
           s.handle AS store_handle, s.name AS store_name, s.currency, s.timezone, s.locale,
           w.managed_by IS NOT NULL AS managed
      FROM webhooks w
           JOIN apps a ON a.id = w.app_id
           JOIN stores s ON s.id = w.store_id
           LEFT JOIN installations i ON i.store_id = w.store_id AND i.app_id = w.app_id
           LEFT JOIN app_callbacks c ON c.app_id = w.app_id AND w.managed_by IS NOT NULL;
