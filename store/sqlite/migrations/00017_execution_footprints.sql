-- +goose Up
PRAGMA user_version = 17;

-- Executions whose streams have footprints: few, and listed newest first.
CREATE INDEX execution_footprints ON execution (no) WHERE instr(progress, '"footprints":true') > 0;
