-- phase: contract
-- orders_sales_idx has the same keys.
DROP INDEX orders_placed_at_idx;
