-- phase: contract
ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_subject_check;
ALTER TABLE variants
    DROP CONSTRAINT variants_other_stock_check, DROP CONSTRAINT variants_price_check,
    DROP CONSTRAINT variants_stock_check;
ALTER TABLE products DROP CONSTRAINT products_price_check, DROP CONSTRAINT products_status_check;
ALTER TABLE customers
    DROP CONSTRAINT customers_consent_check, DROP CONSTRAINT customers_erased_check,
    DROP CONSTRAINT customers_status_check;
ALTER TABLE orders
    DROP CONSTRAINT orders_fulfillment_status_check, DROP CONSTRAINT orders_payment_status_check,
    DROP CONSTRAINT orders_status_check, DROP CONSTRAINT orders_suspected_check, DROP CONSTRAINT orders_total_check;
ALTER TABLE order_lines DROP CONSTRAINT order_lines_quantity_check;
ALTER TABLE order_comments DROP CONSTRAINT order_comments_type_check, DROP CONSTRAINT order_comments_visibility_check;
ALTER TABLE stock_movements DROP CONSTRAINT stock_movements_kind_check, DROP CONSTRAINT stock_movements_reason_check;
