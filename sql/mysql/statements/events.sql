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

-- --- what has changed lately, for GET /v1/events

-- name: live
-- Each part ends at :most rows of a primary key, or at its end.
SELECT 'task', COALESCE(MAX(id), 0), 0, '' FROM rung_tasks
UNION ALL SELECT 'audit', COALESCE(MAX(id), 0), 0, '' FROM rung_audit
UNION ALL SELECT 'event', COALESCE(MAX(id), 0), 0, '' FROM rung_events
UNION ALL SELECT 'by_hand', id, task_id, '' FROM
  (SELECT id, task_id FROM rung_audit WHERE id > :audit ORDER BY id LIMIT :most) a
UNION ALL SELECT 'kind', id, 0, kind FROM
  (SELECT id, kind FROM rung_events WHERE id > :event ORDER BY id LIMIT :most) e
UNION ALL SELECT 'bulk', id, done, '' FROM
  (SELECT id, done FROM rung_bulks WHERE state IN ('running','paused') ORDER BY id DESC LIMIT :most) b

-- name: live.watched
UNION ALL SELECT 'watched', id, version, '' FROM rung_tasks WHERE id IN (:ids)
