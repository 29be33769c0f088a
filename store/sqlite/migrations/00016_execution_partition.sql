-- +goose Up
PRAGMA user_version = 16;

-- The partition that an execution makes (settings.partition): what is under way for one is found without reading all that is.
ALTER TABLE execution ADD COLUMN partition_key TEXT;
CREATE INDEX execution_partition ON execution (partition_key, workflow) WHERE status < 4 AND partition_key IS NOT NULL;
