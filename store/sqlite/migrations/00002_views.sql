-- +goose Up
PRAGMA user_version = 2;
-- It made the views, which views.go makes now.
