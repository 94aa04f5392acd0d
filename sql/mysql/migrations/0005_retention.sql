-- Partitions the tables of the history by the time of their tasks' intake: an old partition is dropped like a
-- file, whatever its size. Two at first: `d0`, everything up to the end of tomorrow (UTC), and `rest`, which
-- stays empty: retention splits days off it before they begin (sql/statements/retention.sql). An id is ms
-- since 2025-01-01 << 22 (src/core/base/ids.h). rung_tasks is not partitioned: its unique intake_key does not
-- contain the id.
--
-- Prepared statements, because a bound that depends on today is not a constant; and only if not done yet,
-- because an interrupted migration is run again. Each table is rewritten once.

SET @rung_bound = (SELECT COALESCE(MIN(CAST(partition_description AS SIGNED)),
    TIMESTAMPDIFF(SECOND, '2025-01-01', UTC_DATE() + INTERVAL 2 DAY) * 1000 * 4194304)
  FROM information_schema.partitions
  WHERE table_schema = DATABASE() AND table_name = 'rung_attempts' AND partition_name = 'd0');

SET @rung_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', CONCAT('ALTER TABLE rung_attempts PARTITION BY RANGE (task_id) ',
    '(PARTITION d0 VALUES LESS THAN (', @rung_bound, '), PARTITION rest VALUES LESS THAN MAXVALUE)'))
  FROM information_schema.partitions
  WHERE table_schema = DATABASE() AND table_name = 'rung_attempts' AND partition_name IS NOT NULL);
PREPARE rung_ddl FROM @rung_ddl;
EXECUTE rung_ddl;
DEALLOCATE PREPARE rung_ddl;

SET @rung_ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', CONCAT('ALTER TABLE rung_bodies PARTITION BY RANGE (task_id) ',
    '(PARTITION d0 VALUES LESS THAN (', @rung_bound, '), PARTITION rest VALUES LESS THAN MAXVALUE)'))
  FROM information_schema.partitions
  WHERE table_schema = DATABASE() AND table_name = 'rung_bodies' AND partition_name IS NOT NULL);
PREPARE rung_ddl FROM @rung_ddl;
EXECUTE rung_ddl;
DEALLOCATE PREPARE rung_ddl;
