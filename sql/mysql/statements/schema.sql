-- The version of the schema, and the lock for creating it.

-- name: migration_lock
-- Per database, so that two schemas on one server do not wait for each other.
SELECT GET_LOCK(CONCAT('rung-migrate:', LEFT(SHA2(DATABASE(), 256), 40)), :wait_s)

-- name: schema_table
CREATE TABLE IF NOT EXISTS rung_schema (
  version    INT NOT NULL,
  applied_at DATETIME(3) NOT NULL,
  PRIMARY KEY (version)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin

-- name: schema_version
SELECT COALESCE(MAX(version), 0) FROM rung_schema

-- name: schema_applied
INSERT INTO rung_schema (version, applied_at) VALUES (:version, UTC_TIMESTAMP(3))

-- name: views_probe
-- Opens a view: fails if its definer is gone.
SELECT queue FROM retry_by_queue LIMIT 0
