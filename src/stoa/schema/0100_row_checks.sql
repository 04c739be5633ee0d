-- One check for each table that orders, adjustments and products write. Each calls a function, which PostgreSQL plans once for a
-- session; it reads the text of a check again in every statement. The tables are in the order in which requests use them, so
-- that this transaction does not wait for a request that waits for it.
ALTER TABLE idempotency_keys
    ADD CONSTRAINT idempotency_keys_check CHECK (valid_idempotency_key(subject_type, subject_id)) NOT VALID;
ALTER TABLE variants
    ADD CONSTRAINT variants_check CHECK (
        valid_variant(price, on_hand, reserved, other_on_hand, other_reserved, allow_backorder, track_inventory)) NOT VALID;
ALTER TABLE products
    ADD CONSTRAINT products_check CHECK (valid_product(status, price)) NOT VALID;
ALTER TABLE customers
    ADD CONSTRAINT customers_check CHECK (valid_customer(status, deleted_at, email_consent, sms_consent)) NOT VALID;
ALTER TABLE orders
    ADD CONSTRAINT orders_check CHECK (
        valid_order(status, payment_status, fulfillment_status, total, suspected_duplicates)) NOT VALID;
ALTER TABLE order_lines
    ADD CONSTRAINT order_lines_check CHECK (valid_order_line(quantity, fulfilled_quantity, returned_quantity)) NOT VALID;
ALTER TABLE order_comments
    ADD CONSTRAINT order_comments_check CHECK (valid_order_comment(type, visibility)) NOT VALID;
ALTER TABLE stock_movements
    ADD CONSTRAINT stock_movements_check CHECK (valid_stock_movement(kind, reason)) NOT VALID;
