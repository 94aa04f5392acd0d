-- Migrations: the lock for applying them, and which were applied.

-- name: migration_lock
-- Per database, so that two schemas on one server do not wait for each other.
SELECT GET_LOCK(CONCAT('rung-migrate:', LEFT(SHA2(DATABASE(), 256), 40)), :wait_s)

-- name: migration_unlock
SELECT RELEASE_LOCK(CONCAT('rung-migrate:', LEFT(SHA2(DATABASE(), 256), 40)))

-- name: migration_table_wait
-- Both servers would wait for a day or longer.
SET SESSION lock_wait_timeout = :wait_s

-- name: schema_table
CREATE TABLE IF NOT EXISTS rung_schema (
  version    INT NOT NULL,
  name       VARCHAR(255) NOT NULL,
  applied_at DATETIME(3) NOT NULL,
  PRIMARY KEY (version)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin

-- name: schema_versions
SELECT version FROM rung_schema ORDER BY version

-- name: schema_applied
INSERT INTO rung_schema (version, name, applied_at) VALUES (:version, :name, UTC_TIMESTAMP(3))

-- name: fresh_table_sizes
-- MySQL only: it answers from statistics that may be a day old otherwise.
SET SESSION information_schema_stats_expiry = 0

-- name: table_sizes
-- Estimates of the server. The last column: indexes without the primary key.
SELECT t.table_name, COALESCE(t.table_rows, 0), COALESCE(t.data_length, 0), COALESCE(t.index_length, 0),
       (SELECT COUNT(DISTINCT s.index_name) FROM information_schema.statistics s
        WHERE s.table_schema = t.table_schema AND s.table_name = t.table_name AND s.index_name <> 'PRIMARY')
FROM information_schema.tables t
WHERE t.table_schema = DATABASE() AND t.table_type = 'BASE TABLE'

-- name: views_probe
-- Opens a view: fails if its definer is gone.
SELECT queue FROM retry_by_queue LIMIT 0
