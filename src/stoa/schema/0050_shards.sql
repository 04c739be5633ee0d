-- Shards: plain databases, each with all rows of some stores. The directory is the database whose own shard is '': it holds these
-- rows and every other global one, and logical replication copies them to the shards.
CREATE SEQUENCE shard_ids;
CREATE TABLE shards (
    id         bigint      NOT NULL DEFAULT nextval('shard_ids'),
    name       text        NOT NULL,
    url        bytea       NOT NULL,  -- encrypted, because it can contain a password
    state      text        NOT NULL DEFAULT 'active',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT shards_pkey PRIMARY KEY (id),
    CONSTRAINT shards_name_key UNIQUE (name),
    CONSTRAINT shards_name_check CHECK (name ~ '^[a-z][a-z0-9-]{0,30}$'),
    CONSTRAINT shards_state_check CHECK (state IN ('active', 'draining'))
);
COMMENT ON TABLE shards IS 'global';

-- The shard that holds a store; '' is the directory's own database.
ALTER TABLE stores ADD COLUMN shard text NOT NULL DEFAULT '';

-- Overrides stores.shard in one database, because replication may bring that column late.
CREATE TABLE store_residence (
    store_id bigint  NOT NULL,
    here     boolean NOT NULL,
    CONSTRAINT store_residence_pkey PRIMARY KEY (store_id)
);
COMMENT ON TABLE store_residence IS 'local';
