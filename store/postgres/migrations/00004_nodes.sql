-- +goose Up

-- A node is a process that runs executions together with others. Its number is never used again. It lives until its lease ends, by this
-- server's clock; 'epoch': it has left. since is when the present chain of leases without a gap began.
CREATE TABLE node (
    no      bigint GENERATED ALWAYS AS IDENTITY (START WITH 1000) PRIMARY KEY, -- smaller ones are for owners that are no nodes
    address text NOT NULL,
    until   timestamptz NOT NULL,
    since   timestamptz NOT NULL
);

-- A role is a task that one node at a time has.
CREATE TABLE role (
    name  text COLLATE "C" PRIMARY KEY,
    node  bigint NOT NULL,
    until timestamptz NOT NULL
);

-- A concurrency key in use. Whoever changes its seats holds its row.
CREATE TABLE seat_key (key text COLLATE "C" PRIMARY KEY);

-- A seat is the membership of an execution in a concurrency key. A sitting one holds a slot of the key.
CREATE TABLE seat (
    key       text COLLATE "C" NOT NULL,
    execution bigint NOT NULL,
    id        text COLLATE "C" NOT NULL,
    owner     bigint NOT NULL,
    priority  int NOT NULL,
    slots     int NOT NULL, -- of the key, as this execution's pipeline says
    sitting   boolean NOT NULL,
    wants     boolean NOT NULL, -- waits for a slot
    PRIMARY KEY (key, execution)
);
CREATE INDEX seat_owner ON seat (owner);

ALTER TABLE node SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE role SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE seat_key SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE seat SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
