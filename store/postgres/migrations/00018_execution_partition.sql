-- +goose Up

-- The partition that an execution makes (settings.partition): what is under way for one is found without reading all that is.
ALTER TABLE execution_live ADD COLUMN IF NOT EXISTS partition_key text COLLATE "C";
ALTER TABLE execution_past ADD COLUMN IF NOT EXISTS partition_key text COLLATE "C";
CREATE INDEX IF NOT EXISTS execution_live_partition ON execution_live (partition_key, id) WHERE partition_key IS NOT NULL;
CREATE OR REPLACE VIEW execution AS SELECT * FROM execution_live UNION ALL SELECT * FROM execution_past;
