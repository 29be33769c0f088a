-- +goose Up

-- Sums of what the attempts of executions have used: of lessons, projects and versions of pipelines. They outlive the executions.
CREATE TABLE IF NOT EXISTS usage (
    kind   text COLLATE "C" NOT NULL,
    id     text COLLATE "C" NOT NULL,
    input  bigint NOT NULL,
    output bigint NOT NULL,
    audio  bigint NOT NULL, -- ms
    cost   bigint NOT NULL, -- millionths
    PRIMARY KEY (kind, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
