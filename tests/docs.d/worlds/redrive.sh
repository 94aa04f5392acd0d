# shellcheck shell=bash disable=SC2034  # ids are the shell's
# docs/redrive.md: three queues whose failures of one day have five causes, and a shop that handles them again.
{
  servers_yaml
  echo "ladders: { default: [5s] }"
  echo "defaults: { success: { presumed_after: 2s } }"
} >rung.yaml
for queue in orders invoices mails; do rabbitmqadmin declare queue name=$queue durable=true >/dev/null; done
rung migrate >/dev/null
rung attach orders invoices mails
sidecar
"${BASH_SOURCE[0]%.sh}_shop.py" &
until_true prints '^67$' rung list --state parked --count
until_true prints '^3$' mariadb rung -Ne "SELECT COUNT(*) FROM retry_attachments WHERE state = 'attached'"
ids[252012345678901234]=$(rung list --state parked --message-id order-4711 --json | grep -o '"retry_id": *"[0-9]*"' | tr -dc 0-9)
echo '{"order": 4711, "city": "Ulm"}' >order-4711.json
the_template_is_fixed() { touch template-is-fixed; }
