-- Over all stores: an app declares a subscription once for all stores that install it.
-- Brings one declaration that not all stores have to the next in_limit stores, and returns how many, or null if there is nothing
-- to do. Its progress is committed with the copies. A store that fails is recorded, and tried again after in_retry.
CREATE FUNCTION apply_app_subscriptions(in_limit integer, in_retry interval) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    d      app_subscriptions;
    stores bigint[];
    store  bigint;
    ok     integer := 0;
    moment timestamptz;
    away   bigint[] := ARRAY(SELECT r.store_id FROM store_residence r WHERE NOT r.here);
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    SELECT s.* INTO d FROM app_subscriptions s
     WHERE s.applied_revision < s.revision
        OR EXISTS (SELECT FROM app_subscription_failures f
                    WHERE f.subscription_id = s.id AND f.failed_at < now() - in_retry AND f.store_id <> ALL (away))
     ORDER BY s.applied_store_id, s.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF d.applied_revision < d.revision THEN
        stores := ARRAY(
            SELECT DISTINCT t.store_id FROM (
                (SELECT i.store_id FROM installations i WHERE i.app_id = d.app_id AND i.store_id > d.applied_store_id
                    AND i.store_id <> ALL (away)
                  ORDER BY i.store_id LIMIT in_limit)
                UNION ALL
                (SELECT w.store_id FROM webhooks w
                  WHERE w.managed_by = d.id AND w.ended_at IS NULL AND w.store_id > d.applied_store_id
                    AND w.store_id <> ALL (away)
                  ORDER BY w.store_id LIMIT in_limit)) t
             ORDER BY t.store_id LIMIT in_limit);
    ELSE
        stores := ARRAY(SELECT f.store_id FROM app_subscription_failures f
                         WHERE f.subscription_id = d.id AND f.failed_at < now() - in_retry
                           AND f.store_id <> ALL (away) ORDER BY f.store_id LIMIT in_limit);
    END IF;
    FOREACH store IN ARRAY stores LOOP
        BEGIN
            PERFORM apply_app_subscription(store, d.id);
            DELETE FROM app_subscription_failures f WHERE f.subscription_id = d.id AND f.store_id = store;
            ok := ok + 1;
        EXCEPTION WHEN OTHERS THEN
            INSERT INTO app_subscription_failures AS f (subscription_id, store_id, error, failed_at)
            VALUES (d.id, store, SQLSTATE, clock_timestamp())
            ON CONFLICT (subscription_id, store_id) DO UPDATE SET error = excluded.error, failed_at = excluded.failed_at;
        END;
    END LOOP;
    IF d.applied_revision < d.revision THEN
        moment := clock_timestamp();
        UPDATE app_subscriptions s
           SET applied_store_id = coalesce(stores[cardinality(stores)], s.applied_store_id),
               applied_stores = s.applied_stores + ok,
               applied_revision = CASE WHEN cardinality(stores) < in_limit THEN s.revision ELSE s.applied_revision END,
               applied_at = CASE WHEN cardinality(stores) < in_limit THEN moment END
         WHERE s.id = d.id;
    END IF;
    DELETE FROM app_subscriptions s
     WHERE s.id = d.id AND s.removed_at IS NOT NULL AND s.applied_revision = s.revision
       AND NOT EXISTS (SELECT FROM app_subscription_failures f WHERE f.subscription_id = s.id);
    RETURN cardinality(stores);
END $$;
