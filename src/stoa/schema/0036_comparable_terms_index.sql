-- phase: concurrently
-- Without a condition: it would compute the terms of each written row twice.
CREATE INDEX CONCURRENTLY IF NOT EXISTS product_terms_comparable_idx ON product_terms USING gin (comparable_terms(terms));
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_comparable_idx ON orders USING gin (comparable_terms(terms));
CREATE INDEX CONCURRENTLY IF NOT EXISTS customers_comparable_idx ON customers USING gin (comparable_terms(terms));
