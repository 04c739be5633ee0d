-- The units of order lines at locations other than the default, derived from the stored line items: what lists of orders filter by.
CREATE TABLE order_allocations (
    store_id bigint NOT NULL,
    order_id bigint NOT NULL,
    line_id bigint NOT NULL,
    location text NOT NULL,
    reserved bigint NOT NULL,
    shipped bigint NOT NULL,
    CONSTRAINT order_allocations_pkey PRIMARY KEY (store_id, order_id, line_id, location),
    CONSTRAINT order_allocations_order_fkey FOREIGN KEY (store_id, order_id) REFERENCES orders (store_id, id) ON DELETE CASCADE,
    CONSTRAINT order_allocations_location_check CHECK (location <> 'default'),
    CONSTRAINT order_allocations_units_check CHECK (reserved >= 0 AND shipped >= 0)
);
ALTER TABLE order_allocations ALTER COLUMN store_id SET (n_distinct = 1);
CREATE INDEX order_allocations_location_idx ON order_allocations (store_id, location, order_id);
COMMENT ON TABLE order_allocations IS 'store';
ALTER TABLE orders ADD COLUMN shipped_at timestamptz;
