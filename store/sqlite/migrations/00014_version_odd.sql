-- +goose Up
PRAGMA user_version = 14;

-- What did not complete of a version, which may be none of many.
CREATE INDEX IF NOT EXISTS execution_version_odd ON execution (workflow, workflow_version, status) WHERE status > 4 AND workflow IS NOT NULL;
