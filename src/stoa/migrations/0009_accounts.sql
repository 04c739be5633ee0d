-- People: accounts with their sessions and second factor, what they own, and what apps ask of stores.
-- All of it is looked up by person or by app before any store is known, so every table is global.

CREATE SEQUENCE account_ids;
CREATE TABLE accounts (
    id                  bigint      NOT NULL DEFAULT nextval('account_ids'),
    email               text        NOT NULL,
    name                text        NOT NULL,
    password_hash       text        NOT NULL,
    operator            boolean     NOT NULL DEFAULT false,
    status              text        NOT NULL DEFAULT 'active',
    totp_secret         bytea,                           -- sealed; set when the second factor is on
    totp_step           bigint      NOT NULL DEFAULT 0,  -- the newest that was used: a code works once
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

-- Shown once, used once; only their hashes are kept.
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

-- Addresses that let somebody in once: the first set-up, an invitation, a new password.
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

-- What an app tells merchants about itself. `registration` is the form that made it: sent twice, it makes one app.
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

-- An app that its owner deleted leaves its name to the logs that speak of it, and never comes back.
ALTER TABLE apps DROP CONSTRAINT apps_status_check;
ALTER TABLE apps ADD CONSTRAINT apps_status_check CHECK (status IN ('active', 'suspended', 'deleted'));
