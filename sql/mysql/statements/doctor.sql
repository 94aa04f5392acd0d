-- What `rung doctor`, and the start, ask a database; it changes nothing.

-- name: doctor_variables
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'innodb_flush_log_at_trx_commit',
  'log_bin', 'sync_binlog', 'wsrep_on', 'max_allowed_packet', 'read_only', 'super_read_only', 'innodb_doublewrite',
  'group_replication_single_primary_mode', 'group_replication_group_name')

-- name: doctor_group_members
-- MySQL alone, and not everybody may.
SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state IN ('ONLINE', 'RECOVERING')

-- name: doctor_grants
SHOW GRANTS

-- name: doctor_isolation
SHOW VARIABLES LIKE 't%_isolation'
