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

-- Buckets in which events wait to be routed. One probe of an index for each: their number does not grow with the wait.
CREATE FUNCTION unrouted_buckets() RETURNS SETOF smallint LANGUAGE plpgsql AS $$
DECLARE
    b smallint;
BEGIN
    FOR b IN 0..63 LOOP
        PERFORM 1 FROM events e WHERE e.routed_on = 'infinity' AND e.store_id % 64 = b LIMIT 1;
        IF FOUND THEN
            RETURN NEXT b;
        END IF;
    END LOOP;
END $$;

-- The next events of these buckets, which are ours until the transaction ends; none of one that another routes now.
CREATE FUNCTION take_events(in_buckets smallint[], in_limit integer)
RETURNS TABLE (store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    left_over integer := in_limit;
    taken     integer;
    b         smallint;
BEGIN
    FOREACH b IN ARRAY in_buckets LOOP
        EXIT WHEN left_over <= 0;
        PERFORM 1 FROM buckets x WHERE x.bucket = b FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        RETURN QUERY
        SELECT e.store_id, e.id, e.type, e.resource_type, e.resource_id, e.resource_version, e.actor, e.changes, e.data,
               e.created_at
          FROM events e WHERE e.routed_on = 'infinity' AND e.store_id % 64 = b
         ORDER BY e.store_id % 64, e.position LIMIT left_over;
        GET DIAGNOSTICS taken = ROW_COUNT;
        left_over := left_over - taken;
    END LOOP;
END $$;

-- When a lane should be looked at, now that something is due at in_due: not before its hold ends.
CREATE FUNCTION lane_due(in_due timestamptz, in_hold timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN
    CASE WHEN in_due = 'infinity' THEN NULL ELSE greatest(in_due, in_hold) END;

-- Puts deliveries (d_) of events (e_) into their lanes, in the order given, and marks the events as routed.
-- d_event counts the events of this call, from 1; a lane that is not to be woken is only filled.
CREATE FUNCTION route_events(
    in_day date, e_store bigint[], e_id text[], e_type text[], e_resource_type text[], e_resource_id bigint[],
    e_version integer[], d_event integer[], d_webhook bigint[], d_ordered boolean[], d_wake boolean[]
) RETURNS integer LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz;
    mine   bigint[];  -- the lanes of one bucket
    total  integer := 0;
    added  integer;
    b      smallint;
BEGIN
    FOR b IN SELECT DISTINCT (e_store[d.event] % 64)::smallint FROM unnest(d_event) AS d (event) ORDER BY 1 LOOP
        -- Whoever holds several lanes takes them in the order of buckets and ids.
        mine := ARRAY(SELECT DISTINCT d.webhook_id FROM unnest(d_event, d_webhook) AS d (event, webhook_id)
                       WHERE e_store[d.event] % 64 = b);
        PERFORM 1 FROM lanes l WHERE l.bucket = b AND l.webhook_id = ANY (mine) ORDER BY l.webhook_id FOR UPDATE;
        moment := clock_timestamp();
        INSERT INTO pending_deliveries (bucket, webhook_id, sequence, store_id, event_id, event_day, event_type,
                                        resource_type, resource_id, resource_version, ordered_by, due_at, created_at)
        SELECT b, l.webhook_id, l.next_sequence + d.place - 1, l.store_id, d.event_id, in_day, d.event_type,
               d.resource_type, d.resource_id, d.version, d.ordered_by,
               CASE WHEN d.ordered_by IS NOT NULL AND (d.turn > 1 OR (
                         SELECT p.sequence FROM pending_deliveries p
                          WHERE p.bucket = b AND p.webhook_id = d.webhook_id AND p.ordered_by = d.ordered_by
                          ORDER BY p.ordered_by, p.sequence LIMIT 1) IS NOT NULL)
                    THEN 'infinity' ELSE moment END,
               moment
          FROM (SELECT t.*, row_number() OVER (PARTITION BY t.webhook_id ORDER BY t.n) AS place,
                       row_number() OVER (PARTITION BY t.webhook_id, t.ordered_by ORDER BY t.n) AS turn
                  FROM (SELECT u.webhook_id, u.n, e_id[u.event] AS event_id, e_type[u.event] AS event_type,
                               e_resource_type[u.event] AS resource_type, e_resource_id[u.event] AS resource_id,
                               e_version[u.event] AS version,
                               CASE WHEN u.ordered THEN e_resource_type[u.event] || ':' || e_resource_id[u.event] END
                               AS ordered_by
                          FROM unnest(d_event, d_webhook, d_ordered) WITH ORDINALITY
                               AS u (event, webhook_id, ordered, n)
                         WHERE e_store[u.event] % 64 = b) t) d
               JOIN lanes l ON l.bucket = b AND l.webhook_id = d.webhook_id AND l.webhook_id = ANY (mine);
        GET DIAGNOSTICS added = ROW_COUNT;
        total := total + added;
        UPDATE lanes l
           SET next_sequence = l.next_sequence + d.count, waiting = l.waiting + d.count,
               due_at = CASE WHEN l.owner <> '' OR NOT d.wake THEN l.due_at
                             ELSE lane_due(least(l.due_at, moment), l.hold_until) END
          FROM (SELECT t.webhook_id, count(*) AS count, bool_or(t.wake) AS wake
                  FROM unnest(d_event, d_webhook, d_wake) AS t (event, webhook_id, wake)
                 WHERE e_store[t.event] % 64 = b GROUP BY t.webhook_id) d
         WHERE l.bucket = b AND l.webhook_id = d.webhook_id AND l.webhook_id = ANY (mine);
    END LOOP;
    UPDATE events e SET routed_on = in_day FROM unnest(e_store, e_id) AS t (store_id, id)
     WHERE e.store_id = t.store_id AND e.id = t.id AND e.routed_on = 'infinity' AND e.id = ANY (e_id);
    RETURN total;
END $$;

-- --- lanes -----------------------------------------------------------------------------------------------------------

-- Takes up to in_limit lanes that are due, bucket by bucket in the order given.
CREATE FUNCTION claim_lanes(in_buckets smallint[], in_owner text, in_limit integer, in_beat interval, in_lease interval)
RETURNS SETOF lanes LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    seats  integer := in_limit;
    taken  integer;
    b      smallint;
BEGIN
    FOREACH b IN ARRAY in_buckets LOOP
        EXIT WHEN seats <= 0;
        RETURN QUERY
        WITH due AS MATERIALIZED (
            SELECT x.webhook_id FROM lanes x WHERE x.bucket = b AND x.due_at <= moment
             ORDER BY x.due_at LIMIT seats FOR UPDATE SKIP LOCKED)
        UPDATE lanes l
           SET owner = in_owner, epoch = l.epoch + 1, lease_until = moment + in_lease,
               due_at = moment + least(in_beat, in_lease)
          FROM due WHERE l.bucket = b AND l.webhook_id = due.webhook_id
        RETURNING l.*;
        GET DIAGNOSTICS taken = ROW_COUNT;
        seats := seats - taken;
    END LOOP;
END $$;

-- The deliveries that come next in each lane, with their events; of a lane that is probed, the first one, due or not.
CREATE FUNCTION lane_heads(l_bucket smallint[], l_webhook bigint[], l_limit integer[], l_probe boolean[])
RETURNS TABLE (webhook_id bigint, sequence bigint, attempt_count integer, attempts text, routed_at timestamptz,
               store_id bigint, id text, type text, resource_type text, resource_id bigint, resource_version integer,
               actor text, changes text, data text, created_at timestamptz)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    head   record;
BEGIN
    FOR n IN 1..cardinality(l_bucket) LOOP
        FOR head IN
            SELECT p.* FROM pending_deliveries p
             WHERE p.bucket = l_bucket[n] AND p.webhook_id = l_webhook[n]
               AND p.due_at <= CASE WHEN l_probe[n] THEN 'infinity' ELSE moment END
             ORDER BY p.due_at, p.sequence LIMIT l_limit[n]
        LOOP
            webhook_id := head.webhook_id; sequence := head.sequence; attempt_count := head.attempt_count;
            attempts := head.attempts; routed_at := head.created_at; store_id := head.store_id; id := head.event_id;
            type := head.event_type; resource_type := head.resource_type; resource_id := head.resource_id;
            -- An event that is there no more leaves its data null.
            SELECT e.resource_version, e.actor, e.changes, e.data, e.created_at
              INTO resource_version, actor, changes, data, created_at
              FROM events e WHERE e.store_id = head.store_id AND e.id = head.event_id AND e.routed_on = head.event_day;
            RETURN NEXT;
        END LOOP;
    END LOOP;
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
) RETURNS integer[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment  timestamptz := clock_timestamp();
    states  integer[] := '{}';
    held    boolean;
    lane    lanes;
    gone    integer;
    again   record;
    ordered text[];
    next_at timestamptz;
BEGIN
    FOR n IN 1..cardinality(l_bucket) LOOP
        SELECT l.* INTO lane FROM lanes l WHERE l.bucket = l_bucket[n] AND l.webhook_id = l_webhook[n] FOR UPDATE;
        held := FOUND AND lane.owner = in_owner AND lane.epoch = l_epoch[n];
        states[n] := held::integer;
        CONTINUE WHEN lane.bucket IS NULL;
        WITH result AS MATERIALIZED (
            SELECT r.sequence, r.status, r.count, r.attempts FROM unnest(r_lane, r_sequence, r_status, r_count, r_attempts)
                   AS r (lane, sequence, status, count, attempts)
             WHERE r.lane = n AND r.status <> 'retrying'),
        done AS (
            DELETE FROM pending_deliveries p
             WHERE p.bucket = lane.bucket AND p.webhook_id = lane.webhook_id
               AND p.sequence = ANY (ARRAY(SELECT r.sequence FROM result r))
            RETURNING p.sequence, p.event_id, p.event_day, p.event_type, p.resource_type, p.resource_id,
                      p.resource_version, p.ordered_by, p.redelivery_of, p.created_at),
        kept AS (
            INSERT INTO deliveries (store_id, webhook_id, sequence, finished_on, event_id, event_day, event_type,
                                    resource_type, resource_id, resource_version, redelivery_of, status, attempt_count,
                                    attempts, created_at, finished_at)
            SELECT lane.store_id, lane.webhook_id, d.sequence, moment::date, d.event_id, d.event_day, d.event_type,
                   d.resource_type, d.resource_id, d.resource_version, d.redelivery_of, r.status, r.count, r.attempts,
                   d.created_at, moment
              FROM done d JOIN result r ON r.sequence = d.sequence)
        SELECT count(*), array_agg(DISTINCT d.ordered_by) FILTER (WHERE d.ordered_by IS NOT NULL)
          INTO gone, ordered FROM done d;
        IF ordered IS NOT NULL THEN
            -- The first that waits of each resource, found by one probe of the index each.
            UPDATE pending_deliveries p SET due_at = moment
             WHERE p.bucket = lane.bucket AND p.webhook_id = lane.webhook_id AND p.due_at = 'infinity'
               AND p.sequence = ANY (ARRAY(
                   SELECT (SELECT q.sequence FROM pending_deliveries q
                            WHERE q.bucket = lane.bucket AND q.webhook_id = lane.webhook_id AND q.ordered_by = k.key
                            ORDER BY q.ordered_by, q.sequence LIMIT 1)
                     FROM unnest(ordered) AS k (key)));
        END IF;
        IF l_attempts[n] > 0 THEN
            INSERT INTO delivery_hours AS h (store_id, webhook_id, hour, succeeded, failed, attempts, failed_attempts, duration_ms)
            VALUES (lane.store_id, lane.webhook_id, date_trunc('hour', moment), l_succeeded[n], l_failed[n], l_attempts[n],
                    l_failed_attempts[n], l_duration_ms[n])
            ON CONFLICT (store_id, webhook_id, hour) DO UPDATE SET
                succeeded = h.succeeded + excluded.succeeded, failed = h.failed + excluded.failed,
                attempts = h.attempts + excluded.attempts, failed_attempts = h.failed_attempts + excluded.failed_attempts,
                duration_ms = h.duration_ms + excluded.duration_ms;
        END IF;
        IF NOT held THEN
            IF gone > 0 THEN
                UPDATE lanes l SET waiting = l.waiting - gone WHERE l.bucket = lane.bucket AND l.webhook_id = lane.webhook_id;
            END IF;
            CONTINUE;
        END IF;
        FOR again IN
            SELECT r.sequence, r.due_at, r.count, r.attempts
              FROM unnest(r_lane, r_sequence, r_status, r_due_at, r_count, r_attempts)
                   AS r (lane, sequence, status, due_at, count, attempts)
             WHERE r.lane = n AND r.status = 'retrying'
        LOOP
            UPDATE pending_deliveries p SET due_at = again.due_at, attempt_count = again.count, attempts = again.attempts
             WHERE p.bucket = lane.bucket AND p.webhook_id = lane.webhook_id AND p.sequence = again.sequence;
        END LOOP;
        IF l_drain[n] THEN  -- the receiver is back: what waited for its next try goes now
            UPDATE pending_deliveries p SET due_at = moment
             WHERE p.bucket = lane.bucket AND p.webhook_id = lane.webhook_id
               AND p.due_at > moment AND p.due_at < 'infinity';
        END IF;
        next_at := NULL;
        IF l_release[n] AND NOT l_idle[n] THEN
            SELECT min(p.due_at) INTO next_at FROM pending_deliveries p
             WHERE p.bucket = lane.bucket AND p.webhook_id = lane.webhook_id;
            next_at := CASE WHEN l_breaker[n] = 'open' AND next_at IS NOT NULL THEN l_hold_until[n]
                            ELSE lane_due(next_at, l_hold_until[n]) END;
            states[n] := CASE WHEN next_at <= clock_timestamp() THEN 2 ELSE 1 END;
        END IF;
        UPDATE lanes l
           SET waiting = l.waiting - gone, breaker = l_breaker[n], probes = l_probes[n], failures = l_failures[n],
               hold_until = l_hold_until[n], window_at = l_window_at[n], window_total = l_window_total[n],
               window_failed = l_window_failed[n], failing_since = l_failing_since[n], told = l_told[n],
               last_success_at = l_last_success_at[n], last_attempt_at = l_last_attempt_at[n],
               owner = CASE WHEN l_release[n] THEN '' ELSE in_owner END,
               lease_until = CASE WHEN l_release[n] THEN NULL ELSE moment + in_lease END,
               due_at = CASE WHEN l_release[n] THEN next_at ELSE moment + least(in_beat, in_lease) END
         WHERE l.bucket = lane.bucket AND l.webhook_id = lane.webhook_id;
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
