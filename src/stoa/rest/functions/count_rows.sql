-- Appends a difference to the number of rows of a resource. Every 64th difference folds those before it into one row, so that
-- a total is the sum of few rows however many writes a store has between two runs of maintenance. Rows that another fold has
-- locked stay for the next one, so that no writer waits for another.
CREATE FUNCTION count_rows(in_store_id bigint, in_resource text, in_delta bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    added bigint;
BEGIN
    INSERT INTO row_counts AS r (store_id, resource, delta) VALUES (in_store_id, in_resource, in_delta) RETURNING r.id INTO added;
    IF added % 64 = 0 THEN
        WITH folded AS (
            DELETE FROM row_counts r
             WHERE r.store_id = in_store_id AND r.resource = in_resource
               AND r.id = ANY (ARRAY(SELECT c.id FROM row_counts c
                                      WHERE c.store_id = in_store_id AND c.resource = in_resource FOR UPDATE SKIP LOCKED))
            RETURNING r.delta)
        INSERT INTO row_counts (store_id, resource, delta) SELECT in_store_id, in_resource, sum(f.delta) FROM folded f;
    END IF;
END $$;
