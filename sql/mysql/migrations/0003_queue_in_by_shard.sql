-- The loader of due tasks needs the queue, to limit each queue separately. With the queue in the index, the
-- window and the sweep still read only the index. One statement: it can be repeated, and InnoDB does it in
-- place.
ALTER TABLE rung_tasks DROP INDEX by_shard, ADD INDEX by_shard (state, shard, next_at, queue);
