-- Events of the system itself, and settings that all instances share.

-- name: event_insert
INSERT INTO rung_events (at, node, kind, subject, detail) VALUES (UTC_TIMESTAMP(3), :node, :kind, :subject, :detail)

-- name: events_insert
INSERT INTO rung_events (at, node, kind, subject, detail) VALUES :rows

-- name: events
SELECT e.id, e.at, COALESCE(n.name, ''), e.kind, e.subject, e.detail
FROM rung_events e LEFT JOIN rung_nodes n ON n.id = e.node ORDER BY e.id DESC LIMIT :limit

-- name: old_events
SELECT id FROM rung_events WHERE at < :before ORDER BY at LIMIT :limit

-- name: old_events_delete
DELETE e FROM rung_events e FORCE INDEX (PRIMARY) WHERE e.id IN (:ids)

-- name: setting
SELECT value FROM rung_settings WHERE name = :name

-- name: setting_insert
INSERT IGNORE INTO rung_settings (name, value) VALUES (:name, :value)

-- name: setting_update
INSERT INTO rung_settings (name, value) VALUES (:name, :value) ON DUPLICATE KEY UPDATE value = VALUES(value)

-- name: setting_delete
DELETE FROM rung_settings WHERE name = :name
