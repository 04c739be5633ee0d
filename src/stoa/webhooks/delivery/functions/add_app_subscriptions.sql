-- Makes every subscription that an app declares a subscription of a store, unless it is one already. Returns how many are new.
CREATE FUNCTION add_app_subscriptions(in_store_id bigint, in_app_id bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    declared record;
    added    integer := 0;
BEGIN
    FOR declared IN SELECT d.id FROM app_subscriptions d WHERE d.app_id = in_app_id AND d.removed_at IS NULL ORDER BY d.id LOOP
        added := added + apply_app_subscription(in_store_id, declared.id);
    END LOOP;
    RETURN added;
END $$;
