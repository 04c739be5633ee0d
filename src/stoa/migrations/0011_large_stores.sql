-- How plans are made. One plan of a statement serves all stores, and the planner would make it for a store of average
-- size: where most are small it takes reading a whole store for cheap, and an order in a large one reads a hundred thousand
-- rows. So it is told, of every table that may hold very many rows of one store, that they may all be of one.
ALTER TABLE products ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE variants ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE stock_movements ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE customers ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE customer_metadata ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE orders ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE order_lines ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE order_comments ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE order_duplicates ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE import_rows ALTER COLUMN store_id SET (n_distinct = 1);
ALTER TABLE idempotency_keys ALTER COLUMN store_id SET (n_distinct = 1);

-- A state that hardly any row is in is not known from a sample; what is known is how many states there are. So a list of
-- the few goes by the index on the state, and does not look for them among all.
ALTER TABLE products ALTER COLUMN status SET (n_distinct = 3);
ALTER TABLE customers ALTER COLUMN status SET (n_distinct = 3);
ALTER TABLE orders ALTER COLUMN status SET (n_distinct = 9);
ALTER TABLE orders ALTER COLUMN payment_status SET (n_distinct = 7);
ALTER TABLE orders ALTER COLUMN fulfillment_status SET (n_distinct = 4);
