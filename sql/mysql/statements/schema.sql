-- Migrations: the lock for applying them, and which were applied.

-- name: migration_lock
-- Per database, so that two schemas on one server do not wait for each other.
SELECT GET_LOCK(CONCAT('rung-migrate:', LEFT(SHA2(DATABASE(), 256), 40)), :wait_s)

-- name: migration_unlock
SELECT RELEASE_LOCK(CONCAT('rung-migrate:', LEFT(SHA2(DATABASE(), 256), 40)))

-- name: schema_table
CREATE TABLE IF NOT EXISTS rung_schema (
  version    INT NOT NULL,
  name       VARCHAR(255) NOT NULL,
  applied_at DATETIME(3) NOT NULL,
  PRIMARY KEY (version)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin

-- name: schema_versions
SELECT version FROM rung_schema ORDER BY version

-- name: schema_applied
INSERT INTO rung_schema (version, name, applied_at) VALUES (:version, :name, UTC_TIMESTAMP(3))
