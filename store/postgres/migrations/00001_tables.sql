-- +goose Up

-- Times are µs since 1970. Statuses are the numbers of package stepwell. Values are JSON as text: jsonb costs more and changes the
-- text. No statement depends on a session, on an order of sequences or on a foreign key, so that a pooler and distributed databases
-- that speak PostgreSQL's protocol can stand in.

-- The database itself: one row.
CREATE TABLE identity (
    one     smallint PRIMARY KEY CHECK (one = 1),
    id      text NOT NULL,    -- names the blobs, keys and objects that are its own; a copy keeps it
    version int NOT NULL      -- of the last migration
);

-- A definition is a snapshot that executions run, by the hash of its canonical JSON.
CREATE TABLE definition (
    hash bytea PRIMARY KEY,
    body text NOT NULL,
    used bigint NOT NULL -- when it was last stored or read, to an hour
);

-- Executions that have not ended. A row is inserted at the start, updated at changes of status, and moved to execution_past with the
-- commit that ends the execution. The table stays small, whatever the history.
CREATE TABLE execution_live (
    no               bigint PRIMARY KEY,
    id               text COLLATE "C" NOT NULL UNIQUE,
    owner            bigint, -- process that runs it; NULL: none
    pipeline         text COLLATE "C" NOT NULL,
    status           smallint NOT NULL,
    definition       bytea NOT NULL,
    parent           text COLLATE "C",
    caused_by        text COLLATE "C" NOT NULL,
    dir              text NOT NULL,
    created          bigint NOT NULL,
    started          bigint,
    ended            bigint,
    failure          text,
    progress         text,
    params           text,
    outputs          text,
    workflow         text COLLATE "C",
    workflow_version int,
    job              text COLLATE "C",
    actor            text COLLATE "C",
    concurrency      text COLLATE "C",
    priority         int NOT NULL
);
CREATE INDEX execution_live_owner ON execution_live (owner);
CREATE INDEX execution_live_free ON execution_live (priority DESC, no) WHERE owner IS NULL;

-- Executions that have ended. A row is written once; a restart moves it back.
CREATE TABLE execution_past (
    no               bigint PRIMARY KEY,
    id               text COLLATE "C" NOT NULL UNIQUE,
    owner            bigint,
    pipeline         text COLLATE "C" NOT NULL,
    status           smallint NOT NULL,
    definition       bytea NOT NULL,
    parent           text COLLATE "C",
    caused_by        text COLLATE "C" NOT NULL,
    dir              text NOT NULL,
    created          bigint NOT NULL,
    started          bigint,
    ended            bigint,
    failure          text,
    progress         text,
    params           text,
    outputs          text,
    workflow         text COLLATE "C",
    workflow_version int,
    job              text COLLATE "C",
    actor            text COLLATE "C",
    concurrency      text COLLATE "C",
    priority         int NOT NULL
);
CREATE INDEX execution_past_workflow ON execution_past (workflow, id) WHERE workflow IS NOT NULL;
CREATE INDEX execution_past_job ON execution_past (job, id) WHERE job IS NOT NULL;
CREATE INDEX execution_past_parent ON execution_past (parent, id) WHERE parent IS NOT NULL;
-- Executions that did not complete: few, and looked for among many.
CREATE INDEX execution_past_odd ON execution_past (id) WHERE status > 4;
-- For retention and the totals.
CREATE INDEX execution_past_ended ON execution_past (ended, status, started, created);

CREATE VIEW execution AS SELECT * FROM execution_live UNION ALL SELECT * FROM execution_past;

-- Dependencies of steps added while the execution runs; other steps have them in the definition.
CREATE TABLE spawned (
    execution  bigint NOT NULL,
    idx        int NOT NULL,
    depends_on text NOT NULL,
    created    bigint NOT NULL,
    PRIMARY KEY (execution, idx)
);

-- Attempts that were seen running before they ended: their start has been told.
CREATE TABLE seen (
    execution bigint NOT NULL,
    idx       int NOT NULL,
    epoch     bigint NOT NULL,
    version   bigint NOT NULL,
    PRIMARY KEY (execution, idx, epoch)
);

-- Steps that have waited for a signal; whether one still does, its row says.
CREATE TABLE waiting (
    execution bigint NOT NULL,
    idx       int NOT NULL,
    external  text COLLATE "C" NOT NULL,
    PRIMARY KEY (execution, idx)
);
CREATE INDEX waiting_external ON waiting (external);

-- Values that steps recorded for their later attempts, with the attempt that recorded them.
CREATE TABLE memo (
    execution bigint NOT NULL,
    step      int NOT NULL,
    key       text COLLATE "C" NOT NULL,
    value     text NOT NULL,
    epoch     bigint NOT NULL,
    PRIMARY KEY (execution, step, key)
);
-- A step's first epoch whose memos count. Who stores a memo locks the row, so that it cannot pass a restart.
CREATE TABLE memo_fence (
    execution bigint NOT NULL,
    step      int NOT NULL,
    epoch     bigint NOT NULL,
    PRIMARY KEY (execution, step)
);

-- Requests of other processes to those that run executions. owner 0: to any.
CREATE TABLE request (
    no        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner     bigint NOT NULL,
    execution text NOT NULL,
    kind      text NOT NULL,
    body      text
);

-- The execution that was started under a key.
CREATE TABLE start_key (
    key       text COLLATE "C" PRIMARY KEY,
    hash      bytea,
    execution bigint NOT NULL,
    created   bigint NOT NULL
);
CREATE INDEX start_key_execution ON start_key (execution);
CREATE INDEX start_key_created ON start_key (created);

-- Signals from outside. taken is the execution whose commit has used one up.
CREATE TABLE signal (
    key   text COLLATE "C" NOT NULL,
    id    text COLLATE "C" NOT NULL,
    body  text,
    at    bigint NOT NULL,
    taken bigint,
    PRIMARY KEY (key, id)
);
CREATE INDEX signal_pending ON signal (key, at, id) WHERE taken IS NULL;
CREATE INDEX signal_at ON signal (at);

-- The outbox.
CREATE TABLE outgoing (
    no        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind      text NOT NULL,
    execution text NOT NULL,
    body      text,
    at        bigint NOT NULL
);

-- Work that steps have going on outside and that is to be stopped, or would have to be if they ended now (held).
CREATE TABLE outside_work (
    execution bigint NOT NULL,
    idx       int NOT NULL,
    epoch     bigint NOT NULL,
    attempt   int NOT NULL,
    key       text NOT NULL,
    action    text NOT NULL,
    state     text,
    since     bigint NOT NULL,
    held      boolean NOT NULL,
    tries     int NOT NULL,
    next      bigint NOT NULL,
    error     text,
    PRIMARY KEY (execution, idx, epoch)
);

-- Managed objects.
CREATE TABLE object (
    kind     text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    name     text COLLATE "C",
    revision bigint NOT NULL,
    body     text,
    created  bigint NOT NULL,
    updated  bigint NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE UNIQUE INDEX object_name ON object (kind, name) WHERE name IS NOT NULL;
CREATE INDEX object_firings ON object (updated) WHERE kind = 'schedule_firings';

-- Changes and their authors. Numbers are not in the order of commits: listings go by time, then number.
CREATE TABLE audit (
    no     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     bigint NOT NULL,
    actor  text NOT NULL,
    role   text,
    remote text,
    action text NOT NULL,
    object text COLLATE "C",
    result text NOT NULL,
    detail text
);
CREATE INDEX audit_at ON audit (at, no);
CREATE INDEX audit_object ON audit (object, at, no) WHERE object IS NOT NULL;

-- Large outputs by the hash of their content. body is NULL where an object store holds it, under the name object.
CREATE TABLE blob (
    hash    bytea PRIMARY KEY,
    size    bigint NOT NULL,
    body    bytea,
    object  text,
    touched bigint NOT NULL -- when it was last stored or needed
);
ALTER TABLE blob ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE blob_use (
    execution bigint NOT NULL,
    hash      bytea NOT NULL,
    PRIMARY KEY (execution, hash)
);
CREATE INDEX blob_use_hash ON blob_use (hash);

-- Executions that are being removed: their rows are gone, their belongings may not be.
CREATE TABLE gone (no bigint PRIMARY KEY, at bigint NOT NULL);

-- Numbers of executions are handed out in blocks, each once. A number is its slot << 32 | a count from 1.
CREATE TABLE counter (
    name text PRIMARY KEY,
    next bigint NOT NULL
);
INSERT INTO counter (name, next) VALUES ('execution', 1);

-- The tables of the slots, see 00002.
CREATE TABLE slot (
    no     bigint PRIMARY KEY,
    opened bigint NOT NULL
);

-- The small tables that change all the time.
ALTER TABLE execution_live SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE counter SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE request SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE signal SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE outgoing SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE waiting SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
