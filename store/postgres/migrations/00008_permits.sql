-- +goose Up

-- A limit that all nodes share. Whoever changes its parts holds its row.
CREATE TABLE permit_limit (name text COLLATE "C" PRIMARY KEY);

-- A node's part of a limit.
CREATE TABLE permit (
    name   text COLLATE "C" NOT NULL,
    node   bigint NOT NULL,
    most   bigint NOT NULL, -- the limit, as the node's settings have it
    demand bigint NOT NULL,
    part   bigint NOT NULL, -- what the node may be using
    PRIMARY KEY (name, node)
);

ALTER TABLE permit SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
