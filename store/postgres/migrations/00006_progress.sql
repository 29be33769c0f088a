-- +goose Up

-- How far projects are. done and errors are what executions and callers have counted here; other_done and other_errors are the
-- counts of other programs on a state server. rev counts changes of status and total, epoch counts resets. event is the id of the
-- event of the finish. completed is NULL until then.
CREATE TABLE progress (
    project      text COLLATE "C" PRIMARY KEY,
    status       text NOT NULL,
    total        bigint NOT NULL,
    done         bigint NOT NULL,
    errors       bigint NOT NULL,
    other_done   bigint NOT NULL,
    other_errors bigint NOT NULL,
    rev          bigint NOT NULL,
    epoch        bigint NOT NULL,
    event        text NOT NULL,
    touched      bigint NOT NULL,
    completed    bigint,
    finished     boolean NOT NULL DEFAULT false -- the last counts of commits have finished it
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX progress_open ON progress (project) WHERE completed IS NULL;

-- Keys of items that have been counted.
CREATE TABLE progress_item (
    project text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    at      bigint NOT NULL,
    PRIMARY KEY (project, key)
);
CREATE INDEX progress_item_at ON progress_item (at);
