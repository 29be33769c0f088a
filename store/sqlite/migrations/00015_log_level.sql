-- +goose Up
PRAGMA user_version = 15;

-- The few lines that are not info: counted by level, and found by it.
CREATE INDEX IF NOT EXISTS log_line_level ON log_line (execution, seq, level) WHERE level <> 1;
