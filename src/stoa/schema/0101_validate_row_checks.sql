-- phase: concurrently
ALTER TABLE orders VALIDATE CONSTRAINT orders_check;
ALTER TABLE order_lines VALIDATE CONSTRAINT order_lines_check;
ALTER TABLE order_comments VALIDATE CONSTRAINT order_comments_check;
ALTER TABLE products VALIDATE CONSTRAINT products_check;
ALTER TABLE variants VALIDATE CONSTRAINT variants_check;
ALTER TABLE stock_movements VALIDATE CONSTRAINT stock_movements_check;
ALTER TABLE customers VALIDATE CONSTRAINT customers_check;
ALTER TABLE idempotency_keys VALIDATE CONSTRAINT idempotency_keys_check;
