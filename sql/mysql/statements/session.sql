-- Connection setup, the creation of the schema, transactions. Each statement runs on MariaDB 10.6+ and MySQL 8.

-- name: session_isolation
-- No gap locks: rows are guarded by their ids, by intake_key and by the leases. READ WRITE: the server's default
-- may be read-only transactions.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE

-- name: session_names
SET NAMES utf8mb4 COLLATE utf8mb4_bin

-- name: session_first
SET SESSION sql_big_selects = 1, sql_select_limit = 18446744073709551615

-- name: session_settings
-- Whatever an administrator sets for all sessions, or init_connect for this one. completion_type: COMMIT neither
-- begins another transaction nor ends the session. sql_big_selects: max_join_size does not apply. unique_checks:
-- intake_key must stay unique. The statement limits end what the client has timed out on. Without them, each retry of a hanging statement
-- would leave another copy running on the server. MySQL's limit applies only to SELECT. The last line names what only one of the two servers
-- knows: MariaDB skips comments of the versions 50700 to 99999.
SET SESSION autocommit = 1, completion_type = 0, time_zone = '+00:00',
  sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
  sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, sql_auto_is_null = 0,
  unique_checks = 1, foreign_key_checks = 1, max_sort_length = 1024, innodb_lock_wait_timeout = :lock_wait_s
  /*M!100101 , max_statement_time = :statement_s */ /*!80000 , max_execution_time = :statement_ms */

-- name: session_silence
SET SESSION wait_timeout = :silence_s, net_read_timeout = :silence_s, net_write_timeout = :silence_s

-- name: session_limits
SELECT @@max_allowed_packet

-- name: session_read_only
-- super_read_only implies it.
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

-- name: migration_lock
-- Per database, so that two schemas on one server do not wait for each other.
SELECT GET_LOCK(CONCAT('rung-migrate:', LEFT(SHA2(DATABASE(), 256), 40)), :wait_s)

-- name: views_probe
-- Opens a view: fails if its definer is gone.
SELECT queue FROM retry_by_queue LIMIT 0

-- name: begin
BEGIN

-- name: commit
COMMIT

-- name: expect_rows
-- Behind a statement of the same packet: fails (1242, a subquery of two rows) unless that one matched :rows. The
-- server does not run the rest of a packet whose statement fails.
SELECT IF(ROW_COUNT() = :rows, 1, (SELECT 1 UNION SELECT 2))

-- name: row_count
-- Of the statement before, as CLIENT_FOUND_ROWS counts.
SELECT ROW_COUNT()

-- name: for_update
FOR UPDATE

-- name: rollback
ROLLBACK

-- name: clock
-- The time as text, of which parse_datetime() reads the milliseconds, and its microseconds.
SELECT UTC_TIMESTAMP(6), MICROSECOND(UTC_TIMESTAMP(6))
