-- +goose Up

-- The project that counts the items of an execution. Executions from before have it in their log alone.
ALTER TABLE execution_live ADD COLUMN IF NOT EXISTS project text COLLATE "C";
ALTER TABLE execution_past ADD COLUMN IF NOT EXISTS project text COLLATE "C";
CREATE INDEX IF NOT EXISTS execution_live_project ON execution_live (project, id) WHERE project IS NOT NULL;
CREATE INDEX IF NOT EXISTS execution_past_project ON execution_past (project, id) WHERE project IS NOT NULL;
CREATE OR REPLACE VIEW execution AS SELECT * FROM execution_live UNION ALL SELECT * FROM execution_past;
