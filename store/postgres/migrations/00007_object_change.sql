-- +goose Up

-- The last change of every managed object that processes keep in memory, in the order of the commits: whoever changes one holds the
-- row of the counter. Deleted objects stay listed.
CREATE TABLE object_change (
    kind text COLLATE "C" NOT NULL,
    id   text COLLATE "C" NOT NULL,
    no   bigint NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX object_change_no ON object_change (no);
ALTER TABLE object_change SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
