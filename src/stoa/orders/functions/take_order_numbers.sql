-- Takes consecutive numbers for several orders, and the ids of the orders and their lines. The caller runs it in a
-- separate transaction, so that no order waits until another is stored. It does not wait for the disk: the commit of the
-- orders comes later in the write-ahead log and makes this durable too.
CREATE FUNCTION take_order_numbers(
    in_store_id bigint, in_orders integer, in_lines integer,
    OUT last bigint, OUT order_ids bigint[], OUT line_ids bigint[], OUT moment timestamptz
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO order_numbers AS n (store_id, last) VALUES (in_store_id, 1000 + in_orders)
        ON CONFLICT ON CONSTRAINT order_numbers_pkey DO UPDATE SET last = n.last + in_orders RETURNING n.last INTO last;
    order_ids := ARRAY(SELECT nextval('order_ids') FROM generate_series(1, in_orders));
    line_ids := ARRAY(SELECT nextval('order_line_ids') FROM generate_series(1, in_lines));
    moment := clock_timestamp();
END $$;
