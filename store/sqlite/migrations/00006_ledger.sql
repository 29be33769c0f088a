-- +goose Up
PRAGMA user_version = 6;

-- Chunks of the ledger of firings, by age: retention looks for old ones.
CREATE INDEX object_firings ON object (updated) WHERE kind = 'schedule_firings';

-- Steps that ended otherwise than completed: few, and looked for among many.
CREATE INDEX step_odd ON step (execution, idx) WHERE status > 5;
