-- An instance's health problems, written with its heartbeat: a JSON array (src/core/base/health.h). ADD counts as
-- done if the column already exists.
ALTER TABLE rung_nodes ADD COLUMN problems TEXT NULL;

-- Events of the system itself: repaired topology, attachments, clock steps, a restored backup. kind is a
-- constant word, subject the affected queue, exchange or node.
CREATE TABLE IF NOT EXISTS rung_events (
  id      BIGINT NOT NULL AUTO_INCREMENT,
  at      DATETIME(3) NOT NULL,
  node    SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  kind    VARCHAR(64) NOT NULL,
  subject VARCHAR(255) NOT NULL DEFAULT '',
  detail  TEXT NOT NULL,
  PRIMARY KEY (id),
  KEY by_at (at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW retry_events AS
SELECT e.id AS event_id, e.at, n.name AS node, e.kind, e.subject, e.detail
FROM rung_events e
LEFT JOIN rung_nodes n ON n.id = e.node;

-- Settings that all instances share and people seldom read: written once, by the first instance.
CREATE TABLE IF NOT EXISTS rung_settings (
  name  VARCHAR(64) NOT NULL,
  value VARCHAR(1024) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
