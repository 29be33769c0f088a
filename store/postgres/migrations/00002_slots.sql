-- +goose Up

-- The three large tables, in slots: a slot holds the executions whose numbers begin with its own, and is dropped as a whole once
-- retention has removed them all. A database without partitions creates these as plain tables and leaves slot empty.

-- A step has a row once it has ended, waits, was spawned, or has been running for a while. version is the commit that
-- wrote it. key is set where the definition does not say it. rare holds what few rows have (store.Extra).
CREATE TABLE step (
    execution  bigint NOT NULL,
    idx        int NOT NULL,
    version    bigint NOT NULL,
    seq        int,
    attempt    int NOT NULL,
    status     smallint NOT NULL,
    superseded boolean, -- true: its key belongs to a newer instance
    queued     bigint,
    started    bigint,
    ended      bigint,
    worker     text,
    key        text COLLATE "C",
    external   text, -- key of the signal that a waiting step waits for
    output     text,
    rare       text,
    PRIMARY KEY (execution, idx)
) PARTITION BY RANGE (execution);
-- Steps that ended otherwise than completed: few, and looked for among many.
CREATE INDEX step_odd ON step (execution, idx) WHERE status > 5;

-- One row per execution and commit. Its key fences every write. at and queued repeat what the body says, for readers of
-- long logs: the steps that the commit has queued, as runs [[first, count], …]. unnamed lists steps whose rows the commit
-- wrote though its log may not name them, likewise.
CREATE TABLE step_log (
    execution bigint NOT NULL,
    version   bigint NOT NULL,
    at        bigint NOT NULL,
    queued    text,
    unnamed   text,
    body      text NOT NULL,
    PRIMARY KEY (execution, version)
) PARTITION BY RANGE (execution);

-- Lines that steps log. seq counts within the execution.
CREATE TABLE log_line (
    execution bigint NOT NULL,
    seq       bigint NOT NULL,
    step      int NOT NULL,
    attempt   int NOT NULL,
    at        bigint NOT NULL,
    level     smallint NOT NULL,
    step_key  text COLLATE "C" NOT NULL,
    message   text NOT NULL,
    attrs     text,
    PRIMARY KEY (execution, seq)
) PARTITION BY RANGE (execution);

-- +goose StatementBegin
DO $$
BEGIN
    ALTER TABLE step_log ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE step ALTER COLUMN output SET COMPRESSION lz4;
    ALTER TABLE log_line ALTER COLUMN message SET COMPRESSION lz4;
EXCEPTION WHEN OTHERS THEN
    NULL; -- a server built without lz4 compresses with its own method
END $$;
-- +goose StatementEnd

CREATE TABLE step_0 PARTITION OF step FOR VALUES FROM (MINVALUE) TO (4294967296);
CREATE TABLE step_log_0 PARTITION OF step_log FOR VALUES FROM (MINVALUE) TO (4294967296);
CREATE TABLE log_line_0 PARTITION OF log_line FOR VALUES FROM (MINVALUE) TO (4294967296);
INSERT INTO slot (no, opened) VALUES (0, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
