-- +goose Up
PRAGMA user_version = 13;

-- Sums of what the attempts of executions have used: of lessons, projects and versions of pipelines. They outlive the executions.
CREATE TABLE usage (
    kind   TEXT NOT NULL,
    id     TEXT NOT NULL,
    input  INTEGER NOT NULL,
    output INTEGER NOT NULL,
    audio  INTEGER NOT NULL, -- ms
    cost   INTEGER NOT NULL, -- millionths
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
