-- Events of the system itself, and settings that all instances share.

-- name: event_insert
INSERT INTO rung_events (at, node, kind, subject, detail) VALUES (UTC_TIMESTAMP(3), :node, :kind, :subject, :detail)

-- name: setting
SELECT value FROM rung_settings WHERE name = :name

-- name: setting_insert
INSERT IGNORE INTO rung_settings (name, value) VALUES (:name, :value)

-- name: setting_update
REPLACE INTO rung_settings (name, value) VALUES (:name, :value)

-- name: setting_delete
DELETE FROM rung_settings WHERE name = :name
