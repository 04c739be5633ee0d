-- The import that took over the file of a check: its one import, or the next check with corrected rows.
ALTER TABLE imports ADD COLUMN continued_by text;
