-- +goose Up

-- The lesson that an execution is a run for.
ALTER TABLE execution_live ADD COLUMN IF NOT EXISTS lesson text COLLATE "C";
ALTER TABLE execution_past ADD COLUMN IF NOT EXISTS lesson text COLLATE "C";
CREATE INDEX IF NOT EXISTS execution_live_lesson ON execution_live (lesson, id) WHERE lesson IS NOT NULL;
CREATE INDEX IF NOT EXISTS execution_past_lesson ON execution_past (lesson, id) WHERE lesson IS NOT NULL;
CREATE OR REPLACE VIEW execution AS SELECT * FROM execution_live UNION ALL SELECT * FROM execution_past;

-- What lists look for among many: each index ends with the id, by which they are ordered.
CREATE INDEX IF NOT EXISTS execution_past_project_status ON execution_past (project, status, id) WHERE project IS NOT NULL;
CREATE INDEX IF NOT EXISTS execution_past_version ON execution_past (workflow, workflow_version, id) WHERE workflow IS NOT NULL;
CREATE INDEX IF NOT EXISTS execution_past_workflow_odd ON execution_past (workflow, status, id) WHERE status > 4 AND workflow IS NOT NULL;
CREATE INDEX IF NOT EXISTS execution_past_status_odd ON execution_past (status, id) WHERE status > 4;
DROP INDEX IF EXISTS execution_past_odd;
