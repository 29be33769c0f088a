-- +goose Up

-- Executions whose streams have footprints: few, and listed newest first. Those under way have no such index, which each of their
-- commits would have to keep: they are found by their ids.
CREATE INDEX IF NOT EXISTS execution_past_footprints ON execution_past (id) WHERE strpos(progress, '"footprints":true') > 0;
