-- Queries of `rung doctor` and of the checks at start; read-only.

-- name: doctor_variables
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'innodb_flush_log_at_trx_commit',
  'log_bin', 'binlog_format', 'innodb_default_row_format', 'innodb_page_size', 'sync_binlog', 'wsrep_on', 'max_allowed_packet', 'read_only', 'super_read_only', 'innodb_doublewrite',
  'group_replication_single_primary_mode', 'group_replication_group_name')

-- name: doctor_group_members
-- MySQL only, and not every user has the privilege.
SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state IN ('ONLINE', 'RECOVERING')

-- name: doctor_privileges
-- A schema in a GRANT is a pattern, like LIKE's. ALL PRIVILEGES is listed as all of them.
SELECT privilege_type FROM information_schema.user_privileges WHERE REPLACE(grantee, '''', '') = CURRENT_USER()
UNION SELECT privilege_type FROM information_schema.schema_privileges
WHERE REPLACE(grantee, '''', '') = CURRENT_USER() AND :schema LIKE table_schema

-- name: doctor_role
SELECT CURRENT_ROLE()
