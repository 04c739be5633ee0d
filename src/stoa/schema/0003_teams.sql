-- Teams of apps and stores, and the closing of stores. A membership stays a row of account_apps or account_stores. A viewer who may
-- change things is a developer of an app, or a manager of a store; release 0.2.0 treats them as viewers.

ALTER TABLE account_apps ADD COLUMN editor boolean NOT NULL DEFAULT false;
ALTER TABLE account_stores ADD COLUMN editor boolean NOT NULL DEFAULT false;

-- Invitations to a team: single-use links, each bound to an email address. An address has one invitation to a team.
CREATE SEQUENCE team_invitation_ids;
CREATE TABLE team_invitations (
    id         bigint      NOT NULL DEFAULT nextval('team_invitation_ids'),
    app_id     bigint,
    store_id   bigint,
    email      text        NOT NULL,
    role       text        NOT NULL,
    token_hash bytea       NOT NULL,
    invited_by bigint,               -- null if an operator used the command line
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT team_invitations_pkey PRIMARY KEY (id),
    CONSTRAINT team_invitations_token_key UNIQUE (token_hash),
    CONSTRAINT team_invitations_app_key UNIQUE (app_id, email),
    CONSTRAINT team_invitations_store_key UNIQUE (store_id, email),
    CONSTRAINT team_invitations_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT team_invitations_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT team_invitations_account_fkey FOREIGN KEY (invited_by) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT team_invitations_team_check CHECK ((app_id IS NULL) <> (store_id IS NULL)),
    CONSTRAINT team_invitations_role_check CHECK (role IN ('owner', 'developer', 'manager', 'viewer'))
);
CREATE INDEX team_invitations_expires_at_idx ON team_invitations (expires_at);
COMMENT ON TABLE team_invitations IS 'global';

-- An owner offers the ownership to another member, who confirms it. A team has one offer at a time.
CREATE SEQUENCE ownership_offer_ids;
CREATE TABLE ownership_offers (
    id           bigint      NOT NULL DEFAULT nextval('ownership_offer_ids'),
    app_id       bigint,
    store_id     bigint,
    from_account bigint      NOT NULL,
    to_account   bigint      NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    CONSTRAINT ownership_offers_pkey PRIMARY KEY (id),
    CONSTRAINT ownership_offers_app_key UNIQUE (app_id),
    CONSTRAINT ownership_offers_store_key UNIQUE (store_id),
    CONSTRAINT ownership_offers_app_fkey FOREIGN KEY (app_id) REFERENCES apps (id) ON DELETE CASCADE,
    CONSTRAINT ownership_offers_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE,
    CONSTRAINT ownership_offers_from_fkey FOREIGN KEY (from_account) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT ownership_offers_to_fkey FOREIGN KEY (to_account) REFERENCES accounts (id) ON DELETE CASCADE,
    CONSTRAINT ownership_offers_team_check CHECK ((app_id IS NULL) <> (store_id IS NULL))
);
CREATE INDEX ownership_offers_to_idx ON ownership_offers (to_account);
CREATE INDEX ownership_offers_expires_at_idx ON ownership_offers (expires_at);
COMMENT ON TABLE ownership_offers IS 'global';

-- Stores that their owner has closed. The status of a closed store is `suspended`, so every release refuses apps there.
CREATE TABLE store_closures (
    store_id  bigint      NOT NULL,
    suspended boolean     NOT NULL,                -- whether an operator has suspended the store too
    closed_at timestamptz NOT NULL DEFAULT now(),
    erase_at  timestamptz,                         -- when maintenance erases the store; null: it is only closed
    CONSTRAINT store_closures_pkey PRIMARY KEY (store_id),
    CONSTRAINT store_closures_store_fkey FOREIGN KEY (store_id) REFERENCES stores (id) ON DELETE CASCADE
);
CREATE INDEX store_closures_erase_at_idx ON store_closures (erase_at) WHERE erase_at IS NOT NULL;
COMMENT ON TABLE store_closures IS 'global';
