-- +goose Up
PRAGMA user_version = 7;

-- Numbers are handed out in blocks, each once.
CREATE TABLE counter (name TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;

-- Who runs an unfinished execution; NULL: nobody.
ALTER TABLE execution ADD COLUMN owner INTEGER;
CREATE INDEX execution_free ON execution (coalesce(priority, 0) DESC, no) WHERE status < 4 AND owner IS NULL;
-- For whom a request is; 0: for whoever takes it.
ALTER TABLE request ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;

-- The attempt that recorded a memo. A row with an empty blob as its key refuses the memos of attempts before its epoch.
ALTER TABLE memo ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;

-- Who waits for a key.
CREATE INDEX waiting_external ON waiting (external);
