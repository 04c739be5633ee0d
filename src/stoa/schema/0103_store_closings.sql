-- Counts how often a store was closed in this database, because it moves away. A worker that knows a store to be here reads with each
-- statement whether the number is still the same, which costs less than to look for the store.
CREATE SEQUENCE store_closings;
