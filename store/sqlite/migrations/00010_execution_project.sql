-- +goose Up
PRAGMA user_version = 10;

-- The project that counts the items of an execution. Executions from before have it in their log alone.
ALTER TABLE execution ADD COLUMN project TEXT;
CREATE INDEX execution_project ON execution (project) WHERE project IS NOT NULL;
