-- Messages from the directory to one store, wherever it is, or to all stores of a shard: written in the transaction of their cause.
-- The table is replicated like every global one, so a message arrives together with the global rows of its transaction.
CREATE SEQUENCE shard_message_positions;
CREATE TABLE shard_outbox (
    position   bigint      NOT NULL DEFAULT nextval('shard_message_positions'),
    id         text        NOT NULL DEFAULT gen_random_uuid()::text,
    store_id   bigint,
    shard      text,
    kind       text        NOT NULL,
    content    text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT shard_outbox_pkey PRIMARY KEY (position),
    CONSTRAINT shard_outbox_receiver_check CHECK (num_nonnulls(store_id, shard) = 1)
);
COMMENT ON TABLE shard_outbox IS 'global';

-- The messages that a store has received. They move with the store, so that no message is received again after a move.
CREATE TABLE store_inbox (
    store_id    bigint      NOT NULL,
    id          text        NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT store_inbox_pkey PRIMARY KEY (store_id, id)
);
COMMENT ON TABLE store_inbox IS 'store';

-- The messages that a shard is bringing to its stores, and the last store that each of them has reached.
CREATE TABLE shard_inbox (
    id             text        NOT NULL,
    after_store_id bigint      NOT NULL DEFAULT 0,
    received_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT shard_inbox_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE shard_inbox IS 'local';
