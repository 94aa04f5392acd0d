# shellcheck shell=bash
# README.md. Its own commands create the database, the user and the config.
mariadb -e "DROP DATABASE rung; DROP USER rung@'127.0.0.1'"
sidecar_runs() { until_true rung stats; }
