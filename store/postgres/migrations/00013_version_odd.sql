-- +goose Up

-- What did not complete of a version, which may be none of many.
CREATE INDEX IF NOT EXISTS execution_past_version_odd ON execution_past (workflow, workflow_version, status, id) WHERE status > 4 AND workflow IS NOT NULL;
