-- Connection setup and transactions. Each statement runs on MariaDB 10.6+ and MySQL 8.

-- name: session_isolation
-- No gap locks: rows are guarded by their ids, by intake_key and by the leases.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED

-- name: session_names
SET NAMES utf8mb4 COLLATE utf8mb4_bin

-- name: session_settings
SET SESSION autocommit = 1, time_zone = '+00:00',
  sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
  innodb_lock_wait_timeout = :lock_wait_s

-- name: session_silence
SET SESSION wait_timeout = :silence_s, net_read_timeout = :silence_s, net_write_timeout = :silence_s

-- name: session_limits
SELECT @@max_allowed_packet, CONNECTION_ID()

-- name: session_read_only
-- Queried first, before anything is set. super_read_only implies it.
SELECT @@GLOBAL.read_only

-- name: session_is_galera
SHOW GLOBAL VARIABLES LIKE 'wsrep_on'

-- name: session_galera_ready
SHOW GLOBAL STATUS LIKE 'wsrep_ready'

-- name: session_cipher
SHOW STATUS LIKE 'Ssl_cipher'

-- name: use_database
USE :schema

-- name: create_database
CREATE DATABASE IF NOT EXISTS :schema CHARACTER SET utf8mb4 COLLATE utf8mb4_bin

-- name: begin
BEGIN

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: clock
SELECT UTC_TIMESTAMP(6), MICROSECOND(UTC_TIMESTAMP(6))

-- name: now
SELECT UTC_TIMESTAMP(3)
