-- +goose Up

-- A window has as many seats as a project has lessons: those that sit are counted, and the first that waits is found, without reading the others.
CREATE INDEX IF NOT EXISTS seat_sitting ON seat (key) WHERE sitting;
CREATE INDEX IF NOT EXISTS seat_waiting ON seat (key, priority DESC, execution) WHERE wants AND NOT sitting;
