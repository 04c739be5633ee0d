-- A number that the directory raises several times a second. A worker that reads it at a shard knows how old the copies of the
-- global tables are there.
CREATE TABLE directory_beats (
    id        smallint    NOT NULL DEFAULT 1,
    beat      bigint      NOT NULL DEFAULT 0,
    beaten_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT directory_beats_pkey PRIMARY KEY (id),
    CONSTRAINT directory_beats_one_check CHECK (id = 1)
);
COMMENT ON TABLE directory_beats IS 'global';
