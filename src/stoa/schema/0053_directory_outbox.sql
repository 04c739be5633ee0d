-- Messages from a shard to the directory, such as a notification: written in the transaction of their cause, and received once.
CREATE SEQUENCE directory_message_positions;
CREATE TABLE directory_outbox (
    position   bigint      NOT NULL DEFAULT nextval('directory_message_positions'),
    id         text        NOT NULL DEFAULT gen_random_uuid()::text,
    kind       text        NOT NULL,
    content    text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT directory_outbox_pkey PRIMARY KEY (position)
);
COMMENT ON TABLE directory_outbox IS 'local';

-- The messages that the directory has received; a message that arrives again is ignored.
CREATE TABLE directory_inbox (
    id          text        NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT directory_inbox_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE directory_inbox IS 'local';
