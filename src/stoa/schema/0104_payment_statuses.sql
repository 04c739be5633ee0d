-- The planner knows how many values a status has: `partially_paid` and `overpaid` make nine.
ALTER TABLE orders ALTER COLUMN payment_status SET (n_distinct = 9);
