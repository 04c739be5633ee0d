-- Moves of stores between shards. The rows are in the directory; a move that has not ended keeps others of its store away.
CREATE SEQUENCE store_move_ids;
CREATE TABLE store_moves (
    id          bigint      NOT NULL DEFAULT nextval('store_move_ids'),
    store_id    bigint      NOT NULL,
    source      text        NOT NULL,
    target      text        NOT NULL,
    state       text        NOT NULL DEFAULT 'preparing',
    pause_ms    integer,
    created_at  timestamptz NOT NULL DEFAULT now(),
    switched_at timestamptz,
    ended_at    timestamptz,
    CONSTRAINT store_moves_pkey PRIMARY KEY (id),
    CONSTRAINT store_moves_state_check
        CHECK (state IN ('preparing', 'copying', 'switching', 'switched', 'done', 'undoing', 'undone')),
    CONSTRAINT store_moves_shards_check CHECK (source <> target)
);
CREATE UNIQUE INDEX store_moves_open_key ON store_moves (store_id) WHERE ended_at IS NULL;
COMMENT ON TABLE store_moves IS 'local';

-- The last row that a move replicates: when the target has it, it has everything that was written before.
CREATE TABLE move_markers (
    move_id bigint NOT NULL,
    token   bigint NOT NULL,
    CONSTRAINT move_markers_pkey PRIMARY KEY (move_id)
);
COMMENT ON TABLE move_markers IS 'local';
