-- Creates a day partition of a table. LIKE does not copy the statistics targets, so they are set here.
CREATE OR REPLACE FUNCTION make_day(in_table text, in_day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    name       text := in_table || '_' || to_char(in_day, 'YYYYMMDD');
    unanalyzed text;
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name, in_table);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN store_id SET (n_distinct = 1)', name);
    FOR unanalyzed IN
        SELECT a.attname FROM pg_attribute a WHERE a.attrelid = in_table::regclass AND a.attstattarget = 0 AND a.attnum > 0
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS 0', name, unanalyzed);
    END LOOP;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', in_table, name, in_day, in_day + 1);
    RETURN true;
END $$;
