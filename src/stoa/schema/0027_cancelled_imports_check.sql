-- phase: concurrently
ALTER TABLE imports VALIDATE CONSTRAINT imports_status_check;
