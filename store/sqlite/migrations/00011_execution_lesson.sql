-- +goose Up
PRAGMA user_version = 11;

-- The lesson that an execution is a run for.
ALTER TABLE execution ADD COLUMN lesson TEXT;
CREATE INDEX execution_lesson ON execution (lesson) WHERE lesson IS NOT NULL;

-- What lists look for among many: each index ends with the number, by which they are ordered.
CREATE INDEX execution_project_status ON execution (project, status) WHERE project IS NOT NULL;
CREATE INDEX execution_version ON execution (workflow, workflow_version) WHERE workflow IS NOT NULL;
CREATE INDEX execution_workflow_odd ON execution (workflow, status) WHERE status > 4 AND workflow IS NOT NULL;
DROP INDEX execution_odd;
CREATE INDEX execution_odd ON execution (status) WHERE status > 4;
