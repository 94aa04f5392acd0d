# shellcheck shell=bash
# docs/operations.md: a new schema, with the partitions of the past alone.
{ servers_yaml; echo "ladders: { default: [5s] }"; } >rung.yaml
rung migrate >/dev/null
no_partitions_were_made() {
  mariadb rung -e "ALTER TABLE rung_bodies REORGANIZE PARTITION d0, rest INTO
    (PARTITION d0 VALUES LESS THAN (4194304), PARTITION rest VALUES LESS THAN MAXVALUE)"
}
