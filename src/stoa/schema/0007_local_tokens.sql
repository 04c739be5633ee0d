-- phase: contract
-- Access tokens live on the coordinator of a cluster alone: a reference table can be written only while every node is there.
-- A local table has no foreign key to a reference table. Apps are never deleted, and the erasure of a store deletes its tokens.
ALTER TABLE tokens DROP CONSTRAINT tokens_app_fkey;
ALTER TABLE tokens DROP CONSTRAINT tokens_store_fkey;
COMMENT ON TABLE tokens IS 'local';
