-- Webhooks: subscriptions, the lanes that their deliveries wait in, what became of each, and the functions that move them.
-- What workers take from all stores at once is keyed by bucket (store_id % 64), so that each statement can name one.

CREATE SEQUENCE webhook_ids;
CREATE TABLE webhooks (
    store_id              bigint      NOT NULL,
    id                    bigint      NOT NULL DEFAULT nextval('webhook_ids'),
    app_id                bigint      NOT NULL,
    name                  text        NOT NULL DEFAULT '',
    url                   text,       -- null: nothing is sent, the feed is read instead
    events                text[]      NOT NULL,
    filter                text        NOT NULL DEFAULT '{}',
    fields                text[]      NOT NULL DEFAULT '{}',
    payload               text        NOT NULL DEFAULT 'full',
    ordering              text        NOT NULL DEFAULT 'none',
    skip_own              boolean     NOT NULL DEFAULT false,
    header_names          text[]      NOT NULL DEFAULT '{}',
    sealed_headers        bytea,      -- a JSON object of all custom headers
    sealed_secret         bytea       NOT NULL,
    sealed_old_secret     bytea,      -- signs too until old_secret_expires_at
    old_secret_expires_at timestamptz,
    same_key              bytea       NOT NULL,  -- digest of url and events: an app subscribes once to the same
    status                text        NOT NULL DEFAULT 'active',
    disabled_reason       text,
    max_in_flight         integer     NOT NULL DEFAULT 10,
    rate_per_s            integer,
    skip_before           timestamptz,           -- what waited before this moment is skipped, as resuming asked for
    ended_at              timestamptz,           -- unsubscribed or uninstalled: nobody sees it any more
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

-- One row is held by whoever routes a bucket, so that no two can swap the events of a resource.
CREATE TABLE buckets (
    bucket smallint NOT NULL,
    CONSTRAINT buckets_pkey PRIMARY KEY (bucket)
);
INSERT INTO buckets (bucket) SELECT generate_series(0, 63);
COMMENT ON TABLE buckets IS 'global';

-- One lane for each subscription. Whoever finds due_at in the past may take it; its owner puts that off while it lives.
CREATE TABLE lanes (
    bucket          smallint    NOT NULL,
    webhook_id      bigint      NOT NULL,
    store_id        bigint      NOT NULL,
    next_sequence   bigint      NOT NULL DEFAULT 1,
    waiting         bigint      NOT NULL DEFAULT 0,       -- rows of pending_deliveries
    due_at          timestamptz,                          -- null: there is nothing to do
    owner           text        NOT NULL DEFAULT '',
    epoch           bigint      NOT NULL DEFAULT 0,       -- grows with each owner and each change of state from outside
    lease_until     timestamptz,
    hold_until      timestamptz,                          -- the next probe, or what Retry-After asked for
    breaker         text        NOT NULL DEFAULT 'closed',
    probes          integer     NOT NULL DEFAULT 0,
    failures        integer     NOT NULL DEFAULT 0,       -- in a row
    window_at       timestamptz,                          -- a minute of attempts, counted to see whether half fail
    window_total    integer     NOT NULL DEFAULT 0,
    window_failed   integer     NOT NULL DEFAULT 0,
    failing_since   timestamptz,                          -- the first attempt without success since the last success
    told            boolean     NOT NULL DEFAULT false,   -- whether webhook.failing was emitted in this outage
    last_success_at timestamptz,
    last_attempt_at timestamptz,
    CONSTRAINT lanes_pkey PRIMARY KEY (bucket, webhook_id),
    CONSTRAINT lanes_breaker_check CHECK (breaker IN ('closed', 'open'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX lanes_due_idx ON lanes (bucket, due_at) WHERE due_at IS NOT NULL;
COMMENT ON TABLE lanes IS 'global';

-- What is still to be sent, and nothing else: a queue is as fast as its table is small. A delivery that must wait for an
-- earlier one of its resource is due at infinity.
CREATE TABLE pending_deliveries (
    bucket        smallint    NOT NULL,
    webhook_id    bigint      NOT NULL,
    sequence      bigint      NOT NULL,
    store_id      bigint      NOT NULL,
    event_id      text        NOT NULL,
    event_day     date        NOT NULL,
    event_type    text        NOT NULL,
    resource_type text        NOT NULL,
    resource_id   bigint      NOT NULL,
    resource_version integer  NOT NULL,
    ordered_by    text,       -- its resource, where order was asked for
    redelivery_of bigint,     -- the sequence of an earlier delivery
    due_at        timestamptz NOT NULL,
    attempt_count integer     NOT NULL DEFAULT 0,
    attempts      text        NOT NULL DEFAULT '[]',
    created_at    timestamptz NOT NULL,
    CONSTRAINT pending_deliveries_pkey PRIMARY KEY (bucket, webhook_id, sequence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX pending_deliveries_due_idx ON pending_deliveries (bucket, webhook_id, due_at, sequence);
CREATE INDEX pending_deliveries_order_idx ON pending_deliveries (bucket, webhook_id, ordered_by, sequence)
    WHERE ordered_by IS NOT NULL;
COMMENT ON TABLE pending_deliveries IS 'global';

-- What became of each delivery, kept for thirty days and then dropped with its day.
CREATE TABLE deliveries (
    store_id      bigint      NOT NULL,
    webhook_id    bigint      NOT NULL,
    sequence      bigint      NOT NULL,
    finished_on   date        NOT NULL,
    event_id      text        NOT NULL,
    event_day     date        NOT NULL,
    event_type    text        NOT NULL,
    resource_type text        NOT NULL,
    resource_id   bigint      NOT NULL,
    resource_version integer  NOT NULL,
    redelivery_of bigint,
    status        text        NOT NULL,
    attempt_count integer     NOT NULL,
    attempts      text        NOT NULL,
    created_at    timestamptz NOT NULL,
    finished_at   timestamptz NOT NULL,
    CONSTRAINT deliveries_pkey PRIMARY KEY (store_id, webhook_id, sequence, finished_on),
    CONSTRAINT deliveries_status_check CHECK (status IN ('succeeded', 'failed', 'skipped', 'cancelled'))
) PARTITION BY RANGE (finished_on);
CREATE INDEX deliveries_resource_idx ON deliveries (store_id, resource_id);

-- The log as it is read: what waits and what is done, one form for both.
CREATE VIEW delivery_log AS
    SELECT store_id, (store_id % 64)::smallint AS bucket, webhook_id, sequence, event_id, event_day, event_type,
           resource_type, resource_id, resource_version, redelivery_of, status, attempt_count, attempts,
           NULL::timestamptz AS next_attempt_at, created_at, finished_at
      FROM deliveries
     UNION ALL
    SELECT store_id, bucket, webhook_id, sequence, event_id, event_day, event_type,
           resource_type, resource_id, resource_version, redelivery_of, CASE WHEN attempts = '[]' THEN 'pending' ELSE 'retrying' END,
           attempt_count, attempts, due_at, created_at, NULL::timestamptz
      FROM pending_deliveries;

-- What an hour brought each subscription, so that a day's figures are the sum of 24 rows.
CREATE TABLE delivery_hours (
    store_id        bigint      NOT NULL,
    webhook_id      bigint      NOT NULL,
    hour            timestamptz NOT NULL,
    succeeded       bigint      NOT NULL,
    failed          bigint      NOT NULL,
    attempts        bigint      NOT NULL,
    failed_attempts bigint      NOT NULL,
    duration_ms     bigint      NOT NULL,  -- of all attempts together
    CONSTRAINT delivery_hours_pkey PRIMARY KEY (store_id, webhook_id, hour)
) WITH (fillfactor = 50);

-- What is to be sent again: these deliveries, or a range; worked off slice by slice from where next_sequence stands.
CREATE SEQUENCE redelivery_ids;
CREATE TABLE redeliveries (
    store_id      bigint      NOT NULL,
    id            bigint      NOT NULL DEFAULT nextval('redelivery_ids'),
    webhook_id    bigint      NOT NULL,
    sequences     bigint[],   -- null: the range
    since         timestamptz,
    until         timestamptz,
    status        text,       -- null: whatever became of them
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

-- A day of a table that is kept by days. Attached, not created in place: that would lock out readers and writers.
CREATE FUNCTION make_day(in_table text, in_day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name text := in_table || '_' || to_char(in_day, 'YYYYMMDD');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name, in_table);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', in_table, name, in_day, in_day + 1);
    RETURN true;
END $$;
SELECT make_day(t.name, current_date + d) FROM unnest(ARRAY['events', 'deliveries']) AS t (name), generate_series(-1, 7) AS d;

-- --- routing ---------------------------------------------------------------------------------------------------------

-- Functions that work on many rows at once are planned while tables may still be empty, and keep that plan: they are told to
-- go by the indexes, one row at a time.

-- Looks at what waits to be routed, up to in_limit events: tells of each store whether anybody there listens. Where nobody
-- does, the events are marked as routed right away, and nobody need read them; how an app's end is told is decided elsewhere.
CREATE FUNCTION look_over_events(in_day date, in_limit integer) RETURNS TABLE (store_id bigint, heard boolean, count bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    mine smallint[] := ARRAY(
        SELECT b.bucket FROM generate_series(0, 63) AS b (bucket)
         WHERE (SELECT true FROM events e WHERE e.routed_on = 'infinity' AND e.store_id % 64 = b.bucket LIMIT 1));
BEGIN
    IF mine = '{}' THEN
        RETURN;
    END IF;
    -- In another order each time, so that one in which very many wait hides no other for long.
    mine := ARRAY(SELECT x.bucket FROM buckets x JOIN unnest(mine) AS m (bucket) ON x.bucket = m.bucket
                   ORDER BY random() FOR UPDATE OF x SKIP LOCKED);
    RETURN QUERY
    WITH next AS MATERIALIZED (
        SELECT e.store_id, e.id, e.type = 'app.uninstalled' OR coalesce((
               SELECT true FROM webhooks w WHERE w.store_id = e.store_id AND w.ended_at IS NULL LIMIT 1), false) AS heard
          FROM unnest(mine) AS m (bucket) CROSS JOIN LATERAL (
               SELECT x.store_id, x.id, x.type FROM events x WHERE x.routed_on = 'infinity' AND x.store_id % 64 = m.bucket
                ORDER BY x.store_id % 64, x.position LIMIT in_limit) e
         LIMIT in_limit),
    passed AS (
        UPDATE events e SET routed_on = in_day FROM next n
         WHERE NOT n.heard AND e.store_id = n.store_id AND e.id = n.id AND e.routed_on = 'infinity')
    SELECT n.store_id, bool_or(n.heard), count(*) FROM next n GROUP BY n.store_id;
END $$;

-- The next events of these buckets, which are ours until the transaction ends; none of one that another routes now. Where
-- nobody listens, data is left out.
CREATE FUNCTION take_events(in_buckets smallint[], in_limit integer)
RETURNS TABLE (store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    mine smallint[] := ARRAY(SELECT x.bucket FROM unnest(in_buckets) AS m (bucket) JOIN buckets x ON x.bucket = m.bucket
                                FOR UPDATE OF x SKIP LOCKED);
BEGIN
    RETURN QUERY
    SELECT e.store_id, e.id, e.type, e.resource_type, e.resource_id, e.resource_version, e.actor, e.changes,
           CASE WHEN e.type = 'app.uninstalled' OR (
                     SELECT true FROM webhooks w WHERE w.store_id = e.store_id AND w.ended_at IS NULL LIMIT 1)
                THEN e.data ELSE '' END,
           e.created_at
      FROM unnest(mine) AS m (bucket) CROSS JOIN LATERAL (
           SELECT x.* FROM events x WHERE x.routed_on = 'infinity' AND x.store_id % 64 = m.bucket
            ORDER BY x.store_id % 64, x.position LIMIT in_limit) e
     LIMIT in_limit;
END $$;

-- When a lane should be looked at, now that something is due at in_due: not before its hold ends.
CREATE FUNCTION lane_due(in_due timestamptz, in_hold timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN
    CASE WHEN in_due = 'infinity' THEN NULL ELSE greatest(in_due, in_hold) END;

-- Puts deliveries (d_) of events (e_) into their lanes, in the order given, and marks the events as routed.
-- d_event counts the events of this call, from 1; a lane that is not to be woken is only filled.
CREATE FUNCTION route_events(
    in_day date, e_store bigint[], e_id text[], e_type text[], e_resource_type text[], e_resource_id bigint[],
    e_version integer[], d_event integer[], d_webhook bigint[], d_ordered boolean[], d_wake boolean[]
) RETURNS integer LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz;
    added  integer := 0;
BEGIN
    IF d_event <> '{}' THEN
        -- Whoever holds several lanes takes them in the order of buckets and ids.
        PERFORM 1 FROM (SELECT DISTINCT (e_store[d.event] % 64)::smallint AS bucket, d.webhook_id
                          FROM unnest(d_event, d_webhook) AS d (event, webhook_id)) t
                       JOIN lanes l ON l.bucket = t.bucket AND l.webhook_id = t.webhook_id
          ORDER BY l.bucket, l.webhook_id FOR UPDATE OF l;
        moment := clock_timestamp();
        INSERT INTO pending_deliveries (bucket, webhook_id, sequence, store_id, event_id, event_day, event_type,
                                        resource_type, resource_id, resource_version, ordered_by, due_at, created_at)
        SELECT l.bucket, l.webhook_id, l.next_sequence + d.place - 1, l.store_id, e_id[d.event], in_day, e_type[d.event],
               e_resource_type[d.event], e_resource_id[d.event], e_version[d.event], d.ordered_by,
               CASE WHEN d.ordered_by IS NOT NULL AND (d.turn > 1 OR (
                         SELECT p.sequence FROM pending_deliveries p
                          WHERE p.bucket = d.bucket AND p.webhook_id = d.webhook_id AND p.ordered_by = d.ordered_by
                          ORDER BY p.ordered_by, p.sequence LIMIT 1) IS NOT NULL)
                    THEN 'infinity' ELSE moment END,
               moment
          FROM (SELECT t.*, row_number() OVER (PARTITION BY t.webhook_id ORDER BY t.n) AS place,
                       row_number() OVER (PARTITION BY t.webhook_id, t.ordered_by ORDER BY t.n) AS turn
                  FROM (SELECT (e_store[u.event] % 64)::smallint AS bucket, u.webhook_id, u.event, u.n,
                               CASE WHEN u.ordered THEN e_resource_type[u.event] || ':' || e_resource_id[u.event] END
                               AS ordered_by
                          FROM unnest(d_event, d_webhook, d_ordered) WITH ORDINALITY
                               AS u (event, webhook_id, ordered, n)) t) d
               JOIN lanes l ON l.bucket = d.bucket AND l.webhook_id = d.webhook_id;
        GET DIAGNOSTICS added = ROW_COUNT;
        UPDATE lanes l
           SET next_sequence = l.next_sequence + d.count, waiting = l.waiting + d.count,
               due_at = CASE WHEN l.owner <> '' OR NOT d.wake THEN l.due_at
                             ELSE lane_due(least(l.due_at, moment), l.hold_until) END
          FROM (SELECT (e_store[t.event] % 64)::smallint AS bucket, t.webhook_id, count(*) AS count, bool_or(t.wake) AS wake
                  FROM unnest(d_event, d_webhook, d_wake) AS t (event, webhook_id, wake) GROUP BY 1, 2) d
         WHERE l.bucket = d.bucket AND l.webhook_id = d.webhook_id;
    END IF;
    UPDATE events e SET routed_on = in_day FROM unnest(e_store, e_id) AS t (store_id, id)
     WHERE e.store_id = t.store_id AND e.id = t.id AND e.routed_on = 'infinity';
    RETURN added;
END $$;

-- --- lanes -----------------------------------------------------------------------------------------------------------

-- Takes up to in_limit lanes that are due, bucket by bucket in the order given.
CREATE FUNCTION claim_lanes(in_buckets smallint[], in_owner text, in_limit integer, in_beat interval, in_lease interval)
RETURNS SETOF lanes LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT d.bucket, d.webhook_id
          FROM unnest(in_buckets) WITH ORDINALITY AS b (bucket, n) CROSS JOIN LATERAL (
               SELECT x.bucket, x.webhook_id FROM lanes x WHERE x.bucket = b.bucket AND x.due_at <= moment
                ORDER BY x.due_at LIMIT in_limit FOR UPDATE SKIP LOCKED) d
         LIMIT in_limit)
    UPDATE lanes l
       SET owner = in_owner, epoch = l.epoch + 1, lease_until = moment + in_lease,
           due_at = moment + least(in_beat, in_lease)
      FROM due WHERE l.bucket = due.bucket AND l.webhook_id = due.webhook_id
    RETURNING l.*;
END $$;

-- The deliveries that come next in each lane, with their events; of a lane that is probed, the first one, due or not.
CREATE FUNCTION lane_heads(l_bucket smallint[], l_webhook bigint[], l_limit integer[], l_probe boolean[])
RETURNS TABLE (webhook_id bigint, sequence bigint, attempt_count integer, attempts text, routed_at timestamptz,
               store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT p.webhook_id, p.sequence, p.attempt_count, p.attempts, p.created_at, p.store_id, p.event_id, p.event_type,
           p.resource_type, p.resource_id, e.resource_version, e.actor, e.changes, e.data, e.created_at
      FROM unnest(l_bucket, l_webhook, l_limit, l_probe) WITH ORDINALITY AS t (bucket, webhook_id, most, probe, n)
           CROSS JOIN LATERAL (
           SELECT q.* FROM pending_deliveries q
            WHERE q.bucket = t.bucket AND q.webhook_id = t.webhook_id
              AND q.due_at <= CASE WHEN t.probe THEN 'infinity' ELSE moment END
            ORDER BY q.due_at, q.sequence LIMIT t.most) p
           -- An event that is there no more leaves its data null.
           LEFT JOIN events e ON e.store_id = p.store_id AND e.id = p.event_id AND e.routed_on = p.event_day;
END $$;

-- Tells that the owner of these lanes lives; answers for each whether it is still the owner's. A lane that is locked just
-- now is passed over until the next beat, so that nobody waits for anybody.
CREATE FUNCTION renew_lanes(in_owner text, in_beat interval, l_bucket smallint[], l_webhook bigint[], l_epoch bigint[])
RETURNS boolean[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    held   boolean[] := '{}';
    lane   lanes;
BEGIN
    FOR n IN 1..cardinality(l_bucket) LOOP
        SELECT l.* INTO lane FROM lanes l WHERE l.bucket = l_bucket[n] AND l.webhook_id = l_webhook[n];
        held[n] := FOUND AND lane.owner = in_owner AND lane.epoch = l_epoch[n];
        IF held[n] THEN
            PERFORM 1 FROM lanes l WHERE l.bucket = l_bucket[n] AND l.webhook_id = l_webhook[n]
                AND l.owner = in_owner AND l.epoch = l_epoch[n] FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE lanes l SET due_at = least(moment + in_beat, l.lease_until)
                 WHERE l.bucket = l_bucket[n] AND l.webhook_id = l_webhook[n];
            END IF;
        END IF;
    END LOOP;
    RETURN held;
END $$;

-- Records what became of deliveries (r_) and how their lanes (l_) stand; r_lane counts lanes of this call, from 1. A
-- delivery that is done counts whoever reports it; all else only if the lane is still the reporter's, which the answer
-- tells for each lane: 0 it is not, 1 it is or was let go, 2 it was let go and has more to do at once. A lane that is let go is
-- due when its next delivery is.
CREATE FUNCTION settle_deliveries(
    in_owner text, in_lease interval, in_beat interval,
    l_bucket smallint[], l_webhook bigint[], l_epoch bigint[], l_release boolean[], l_idle boolean[], l_drain boolean[],
    l_breaker text[], l_probes integer[], l_failures integer[], l_hold_until timestamptz[], l_window_at timestamptz[],
    l_window_total integer[], l_window_failed integer[], l_failing_since timestamptz[], l_told boolean[],
    l_last_success_at timestamptz[], l_last_attempt_at timestamptz[], l_succeeded integer[], l_failed integer[],
    l_attempts integer[], l_failed_attempts integer[], l_duration_ms bigint[],
    r_lane integer[], r_sequence bigint[], r_status text[], r_due_at timestamptz[], r_count integer[], r_attempts text[]
) RETURNS integer[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz;
    there integer[];  -- the lanes that are there
    stores bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(l_bucket)]);
    held   boolean[] := array_fill(false, ARRAY[cardinality(l_bucket)]);
    gone   integer[] := array_fill(0, ARRAY[cardinality(l_bucket)]);
    states integer[] := array_fill(0, ARRAY[cardinality(l_bucket)]);
    a_store bigint[];
    a_held  boolean[];
    d_lane  integer[];  -- of each delivery that is done: its lane, and its resource where order is kept
    d_key   text[];
    s_lane  integer[];
    s_state integer[];
    n       integer;
BEGIN
    -- All lanes first, in the order in which everybody takes them.
    WITH mine AS MATERIALIZED (
        SELECT t.n, l.store_id, l.owner = in_owner AND l.epoch = t.epoch AS held
          FROM unnest(l_bucket, l_webhook, l_epoch) WITH ORDINALITY AS t (bucket, webhook_id, epoch, n)
               JOIN lanes l ON l.bucket = t.bucket AND l.webhook_id = t.webhook_id
         ORDER BY t.bucket, t.webhook_id FOR UPDATE OF l)
    SELECT array_agg(m.n), array_agg(m.store_id), array_agg(m.held) INTO there, a_store, a_held FROM mine m;
    FOR i IN 1..coalesce(cardinality(there), 0) LOOP
        stores[there[i]] := a_store[i];
        held[there[i]] := a_held[i];
    END LOOP;
    moment := clock_timestamp();
    WITH result AS MATERIALIZED (
        SELECT r.lane, l_bucket[r.lane] AS bucket, l_webhook[r.lane] AS webhook_id, r.sequence, r.status, r.count, r.attempts
          FROM unnest(r_lane, r_sequence, r_status, r_count, r_attempts) AS r (lane, sequence, status, count, attempts)
         WHERE r.status <> 'retrying' AND stores[r.lane] IS NOT NULL),
    done AS (
        DELETE FROM pending_deliveries p USING result r
         WHERE p.bucket = r.bucket AND p.webhook_id = r.webhook_id AND p.sequence = r.sequence
        RETURNING r.lane, r.status, r.count, r.attempts, p.store_id, p.webhook_id, p.sequence, p.event_id, p.event_day,
                  p.event_type, p.resource_type, p.resource_id, p.resource_version, p.ordered_by, p.redelivery_of, p.created_at),
    kept AS (
        INSERT INTO deliveries (store_id, webhook_id, sequence, finished_on, event_id, event_day, event_type,
                                resource_type, resource_id, resource_version, redelivery_of, status, attempt_count,
                                attempts, created_at, finished_at)
        SELECT d.store_id, d.webhook_id, d.sequence, moment::date, d.event_id, d.event_day, d.event_type,
               d.resource_type, d.resource_id, d.resource_version, d.redelivery_of, d.status, d.count, d.attempts,
               d.created_at, moment
          FROM done d)
    SELECT coalesce(array_agg(d.lane), '{}'), array_agg(d.ordered_by) INTO d_lane, d_key FROM done d;
    FOREACH n IN ARRAY d_lane LOOP
        gone[n] := gone[n] + 1;
    END LOOP;
    IF array_remove(d_key, NULL) <> '{}' THEN
        -- The first that waits of each resource, found by one probe of the index each.
        UPDATE pending_deliveries p SET due_at = moment
          FROM (SELECT l_bucket[d.lane] AS bucket, l_webhook[d.lane] AS webhook_id,
                       (SELECT q.sequence FROM pending_deliveries q
                         WHERE q.bucket = l_bucket[d.lane] AND q.webhook_id = l_webhook[d.lane] AND q.ordered_by = d.key
                         ORDER BY q.ordered_by, q.sequence LIMIT 1) AS sequence
                  FROM (SELECT DISTINCT u.lane, u.key FROM unnest(d_lane, d_key) AS u (lane, key)
                         WHERE u.key IS NOT NULL) d) t
         WHERE p.bucket = t.bucket AND p.webhook_id = t.webhook_id AND p.sequence = t.sequence AND p.due_at = 'infinity';
    END IF;
    INSERT INTO delivery_hours AS h (store_id, webhook_id, hour, succeeded, failed, attempts, failed_attempts, duration_ms)
    SELECT stores[t.n], t.webhook_id, date_trunc('hour', moment), t.succeeded, t.failed, t.attempts, t.failed_attempts,
           t.duration_ms
      FROM unnest(l_webhook, l_succeeded, l_failed, l_attempts, l_failed_attempts, l_duration_ms) WITH ORDINALITY
           AS t (webhook_id, succeeded, failed, attempts, failed_attempts, duration_ms, n)
     WHERE t.attempts > 0 AND stores[t.n] IS NOT NULL
        ON CONFLICT (store_id, webhook_id, hour) DO UPDATE SET
           succeeded = h.succeeded + excluded.succeeded, failed = h.failed + excluded.failed,
           attempts = h.attempts + excluded.attempts, failed_attempts = h.failed_attempts + excluded.failed_attempts,
           duration_ms = h.duration_ms + excluded.duration_ms;
    IF 'retrying' = ANY (r_status) THEN
        UPDATE pending_deliveries p SET due_at = r.due_at, attempt_count = r.count, attempts = r.attempts
          FROM unnest(r_lane, r_sequence, r_status, r_due_at, r_count, r_attempts)
               AS r (lane, sequence, status, due_at, count, attempts)
         WHERE r.status = 'retrying' AND held[r.lane]
           AND p.bucket = l_bucket[r.lane] AND p.webhook_id = l_webhook[r.lane] AND p.sequence = r.sequence;
    END IF;
    IF true = ANY (l_drain) THEN  -- the receiver is back: what waited for its next try goes now
        UPDATE pending_deliveries p SET due_at = moment
          FROM unnest(l_bucket, l_webhook, l_drain, held) AS t (bucket, webhook_id, drain, held)
         WHERE t.drain AND t.held AND p.bucket = t.bucket AND p.webhook_id = t.webhook_id
           AND p.due_at > moment AND p.due_at < 'infinity';
    END IF;
    IF false = ANY (held) THEN
        UPDATE lanes l SET waiting = l.waiting - t.gone
          FROM unnest(l_bucket, l_webhook, held, gone) AS t (bucket, webhook_id, held, gone)
         WHERE NOT t.held AND t.gone > 0 AND l.bucket = t.bucket AND l.webhook_id = t.webhook_id;
    END IF;
    WITH moved AS (
        UPDATE lanes l
           SET waiting = l.waiting - gone[t.n], breaker = t.breaker, probes = t.probes, failures = t.failures,
               hold_until = t.hold_until, window_at = t.window_at, window_total = t.window_total,
               window_failed = t.window_failed, failing_since = t.failing_since, told = t.told,
               last_success_at = t.last_success_at, last_attempt_at = t.last_attempt_at,
               owner = CASE WHEN t.release THEN '' ELSE in_owner END,
               lease_until = CASE WHEN t.release THEN NULL ELSE moment + in_lease END,
               due_at = CASE WHEN NOT t.release THEN moment + least(in_beat, in_lease)
                             WHEN t.breaker = 'open' AND t.next_at IS NOT NULL THEN t.hold_until
                             ELSE lane_due(t.next_at, t.hold_until) END
          FROM (SELECT u.*, CASE WHEN u.release AND NOT u.idle THEN (
                       SELECT p.due_at FROM pending_deliveries p WHERE p.bucket = u.bucket AND p.webhook_id = u.webhook_id
                        ORDER BY p.bucket, p.webhook_id, p.due_at LIMIT 1) END AS next_at
                  FROM unnest(l_bucket, l_webhook, l_release, l_idle, l_breaker, l_probes, l_failures, l_hold_until,
                              l_window_at, l_window_total, l_window_failed, l_failing_since, l_told, l_last_success_at,
                              l_last_attempt_at) WITH ORDINALITY
                       AS u (bucket, webhook_id, release, idle, breaker, probes, failures, hold_until, window_at,
                             window_total, window_failed, failing_since, told, last_success_at, last_attempt_at, n)
                 WHERE held[u.n]) t
         WHERE l.bucket = t.bucket AND l.webhook_id = t.webhook_id
        RETURNING t.n, CASE WHEN t.release AND l.due_at <= clock_timestamp() THEN 2 ELSE 1 END AS state)
    SELECT coalesce(array_agg(m.n), '{}'), array_agg(m.state) INTO s_lane, s_state FROM moved m;
    FOR i IN 1..cardinality(s_lane) LOOP
        states[s_lane[i]] := s_state[i];
    END LOOP;
    RETURN states;
END $$;

-- --- for those who change a subscription -------------------------------------------------------------------------------

-- Takes the lane out of whoever's hands and looks at it now, its receiver's past forgotten: after a resume, a new url, an end.
CREATE FUNCTION wake_lane(in_store_id bigint, in_webhook_id bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    b      smallint := (in_store_id % 64)::smallint;
    moment timestamptz := clock_timestamp();
BEGIN
    UPDATE lanes SET owner = '', epoch = epoch + 1, lease_until = NULL, hold_until = NULL, breaker = 'closed', probes = 0,
           failures = 0, window_at = NULL, window_total = 0, window_failed = 0, failing_since = NULL, told = false,
           due_at = CASE WHEN waiting > 0 THEN moment END
     WHERE bucket = b AND webhook_id = in_webhook_id;
    UPDATE pending_deliveries SET due_at = moment
     WHERE bucket = b AND webhook_id = in_webhook_id AND due_at > moment AND due_at < 'infinity';
END $$;

-- Takes the lane out of whoever's hands and leaves it alone: after a pause.
CREATE FUNCTION rest_lane(in_store_id bigint, in_webhook_id bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE lanes SET owner = '', epoch = epoch + 1, lease_until = NULL, due_at = NULL
     WHERE bucket = (in_store_id % 64)::smallint AND webhook_id = in_webhook_id
$$;

-- Queues deliveries of the log again, each under a new sequence, in the order given; those that still wait become due now.
-- Says how many there were.
CREATE FUNCTION queue_again(in_store_id bigint, in_webhook_id bigint, in_sequences bigint[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    b      smallint := (in_store_id % 64)::smallint;
    moment timestamptz;
    lane   lanes;
    added  integer;
    hurried integer;
BEGIN
    SELECT l.* INTO lane FROM lanes l WHERE l.bucket = b AND l.webhook_id = in_webhook_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    moment := clock_timestamp();
    UPDATE pending_deliveries p SET due_at = moment
     WHERE p.bucket = b AND p.webhook_id = in_webhook_id AND p.sequence = ANY (in_sequences) AND p.due_at < 'infinity';
    GET DIAGNOSTICS hurried = ROW_COUNT;
    INSERT INTO pending_deliveries (bucket, webhook_id, sequence, store_id, event_id, event_day, event_type,
                                    resource_type, resource_id, resource_version, ordered_by, redelivery_of, due_at, created_at)
    SELECT b, in_webhook_id, lane.next_sequence + d.place - 1, in_store_id, d.event_id, d.event_day, d.event_type,
           d.resource_type, d.resource_id, d.resource_version, d.ordered_by, d.sequence,
           CASE WHEN d.ordered_by IS NOT NULL AND (d.turn > 1 OR (
                     SELECT p.sequence FROM pending_deliveries p
                      WHERE p.bucket = b AND p.webhook_id = in_webhook_id AND p.ordered_by = d.ordered_by
                      ORDER BY p.ordered_by, p.sequence LIMIT 1) IS NOT NULL)
                THEN 'infinity' ELSE moment END,
           moment
      FROM (SELECT t.*, row_number() OVER (ORDER BY t.sequence) AS place,
                   row_number() OVER (PARTITION BY t.ordered_by ORDER BY t.sequence) AS turn
              FROM (SELECT d.sequence, d.event_id, d.event_day, d.event_type, d.resource_type, d.resource_id,
                           d.resource_version, CASE WHEN w.ordering = 'resource' THEN d.resource_type || ':' || d.resource_id END AS ordered_by
                      FROM deliveries d JOIN webhooks w ON w.store_id = in_store_id AND w.id = in_webhook_id
                     WHERE d.store_id = in_store_id AND d.webhook_id = in_webhook_id
                       AND d.sequence = ANY (in_sequences)) t) d;
    GET DIAGNOSTICS added = ROW_COUNT;
    UPDATE lanes l
       SET next_sequence = l.next_sequence + added, waiting = l.waiting + added,
           due_at = CASE WHEN l.owner <> '' OR w.status <> 'active' OR w.url IS NULL THEN l.due_at
                         ELSE lane_due(least(l.due_at, moment), l.hold_until) END
      FROM webhooks w
     WHERE l.bucket = b AND l.webhook_id = in_webhook_id AND w.store_id = in_store_id AND w.id = in_webhook_id
       AND added + hurried > 0;
    RETURN added + hurried;
END $$;

-- --- chores ------------------------------------------------------------------------------------------------------------

-- Each of these takes a lane before what waits in it, as all others do, and passes over one that is held just now.

-- A wake-up that was lost, however that came about, costs no more than the time to the next look.
CREATE FUNCTION sweep_lanes() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    lane   record;
    swept integer := 0;
BEGIN
    FOR lane IN
        SELECT l.bucket, l.webhook_id FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
         WHERE l.due_at IS NULL AND l.waiting > 0 AND l.owner = ''
           AND (w.status = 'active' AND w.url IS NOT NULL OR w.ended_at IS NOT NULL)
           FOR UPDATE OF l SKIP LOCKED
    LOOP
        UPDATE lanes l SET due_at = moment WHERE l.bucket = lane.bucket AND l.webhook_id = lane.webhook_id;
        swept := swept + 1;
    END LOOP;
    RETURN swept;
END $$;

-- What waits longer than its event is kept can no longer be told; of a subscription that has ended, only its end is.
CREATE FUNCTION clear_lanes(in_days integer, in_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    lane  record;
    gone  integer;
    total integer := 0;
BEGIN
    FOR lane IN
        SELECT l.bucket, l.webhook_id, w.url, w.ended_at IS NOT NULL AS ended
          FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
         WHERE l.waiting > 0
           AND (w.ended_at IS NOT NULL OR current_date - in_days > (
                SELECT p.event_day FROM pending_deliveries p WHERE p.bucket = l.bucket AND p.webhook_id = l.webhook_id
                 ORDER BY p.bucket, p.webhook_id, p.sequence LIMIT 1))
           FOR UPDATE OF l SKIP LOCKED
    LOOP
        DELETE FROM pending_deliveries p
         WHERE p.bucket = lane.bucket AND p.webhook_id = lane.webhook_id AND p.sequence = ANY (ARRAY(
               SELECT q.sequence FROM pending_deliveries q
                WHERE q.bucket = lane.bucket AND q.webhook_id = lane.webhook_id
                  AND CASE WHEN lane.ended THEN q.event_type <> 'app.uninstalled' OR lane.url IS NULL
                           ELSE q.event_day < current_date - in_days END
                ORDER BY q.bucket, q.webhook_id, q.sequence LIMIT in_limit));
        GET DIAGNOSTICS gone = ROW_COUNT;
        UPDATE lanes l SET waiting = l.waiting - gone WHERE l.bucket = lane.bucket AND l.webhook_id = lane.webhook_id;
        total := total + gone;
    END LOOP;
    RETURN total;
END $$;

-- Removes what ended a while ago and has nothing left to tell.
CREATE FUNCTION remove_ended() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    lane  record;
    total integer := 0;
BEGIN
    FOR lane IN
        SELECT l.bucket, l.webhook_id, l.store_id
          FROM webhooks w JOIN lanes l ON l.bucket = (w.store_id % 64)::smallint AND l.webhook_id = w.id
         WHERE w.ended_at < now() - interval '1 minute' AND l.waiting <= 0 AND l.owner = ''
           FOR UPDATE OF l SKIP LOCKED
    LOOP
        DELETE FROM lanes l WHERE l.bucket = lane.bucket AND l.webhook_id = lane.webhook_id;
        DELETE FROM webhooks w WHERE w.store_id = lane.store_id AND w.id = lane.webhook_id;
        total := total + 1;
    END LOOP;
    RETURN total;
END $$;
