// The table of all keys. A new key needs a row here, a line in examples/full.yaml and a row in
// docs/configuration.md; tests/unit/config/keys_test.cc compares the three.
#include <algorithm>

#include "src/config/draft.h"

namespace rung::confile {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kLongestName = 64;
constexpr Ms kLeastMs{1};

Config& config(Value& v) { return v.draft.config; }
LadderDraft& ladder(Value& v) { return v.draft.ladders.back(); }
QueueDraft& queue(Value& v) { return *v.draft.queue; }
TagDraft& tag(Value& v) { return v.draft.tags.back(); }
RulesDraft& current_rules(Value& v) { return *v.draft.current_rules; }  // a queue or a tag
GroupDraft& group(Value& v) { return v.draft.groups.back(); }
DelayDraft& delay(Value& v) { return v.draft.delays.back(); }

bool set_prefix(Value& v, std::string& out) {
  std::string prefix;
  if (!v.name(prefix, kLongestName)) return false;
  if (prefix.starts_with("amq."))
    return v.add_error("names that begin with amq. are reserved for the broker");
  out = prefix;
  return true;
}

bool set_group_queues(Value& v) {
  if (!v.list_of_patterns(group(v).queues)) return false;
  for (const Node& item : v.node.items) group(v).queue_marks.push_back(item.mark);
  return true;
}

bool set_parked(Value& v, bool& publish) {
  std::string word;
  if (!v.choice(word, {"keep", "publish"})) return false;
  publish = word == "publish";
  return true;
}

// Records the position of a ladder's key, for errors that involve several of its keys.
bool note(Value& v, std::string_view part, bool ok) {
  ladder(v).present.emplace(part, v.node.mark);
  ladder(v).substituted = ladder(v).substituted || v.node.substituted;
  return ok;
}

bool set_levels(Value& v) {
  if (v.node.kind == Node::Kind::list) return note(v, "levels", v.list_of_durations(ladder(v)));
  return note(v, "levels", v.integer(ladder(v).spec.levels, 1, levels::Ladder::kMostLevels));
}

bool set_silence(Value& v, std::optional<Ms>& after, Mark& mark) {
  Ms ms{0};
  mark = v.node.mark;
  const bool ok = v.duration(ms, kLeastMs, levels::kLongest);
  if (!ok) current_rules(v).success_broken = true;
  after = ms;
  return ok;
}

bool set_ladder(Value& v) {
  current_rules(v).ladder_mark = v.node.mark;
  current_rules(v).ladder_substituted = v.node.substituted;
  return v.optional(current_rules(v).ladder, &Value::name, kLongestName);
}

bool set_delay_end(Value& v, std::optional<std::string>& out, Mark& mark) {
  mark = v.node.mark;
  delay(v).substituted = delay(v).substituted || v.node.substituted;
  return v.optional(out, &Value::amqp_name);
}

bool set_queue_parked(Value& v) {
  bool publish = false;
  if (!set_parked(v, publish)) return false;
  queue(v).publish_parked = publish;
  return true;
}

bool set_allow(Value& v) {
  TargetRules::Patterns patterns;
  const bool ok = v.list_of_patterns(patterns);
  v.draft.allow = std::move(patterns);
  return ok;
}

constexpr int kMostCatchUp = 1'000'000;

// Below an hour, people could not inspect tasks that just ended, and late events (a result, a redelivery
// after a broker restart, a failure after a presumed success) would not find their task.
bool set_retention(Value& v) {
  if (v.node.kind == Node::Kind::text && v.node.text == "off") {
    config(v).retention.reset();
    return true;
  }
  Ms keep{0};
  if (!v.duration(keep, kLeastMs, levels::kLongest)) return false;
  if (keep < hours{1})
    return v.add_error(v.shown() +
                       " is too short: at least 1h, so that late results and failures still find their task");
  config(v).retention = keep;
  return true;
}

constexpr std::size_t kMostIndexed = 16, kLongestHeader = 128;

bool set_index_headers(Value& v) {
  if (v.node.kind != Node::Kind::list)
    return v.add_error("expected a list of header names, e.g. [tenant, region]");
  auto& names = config(v).store.index_headers;
  for (const Node& item : v.node.items) {
    Value one{v.draft, v.problems, item, v.path, v.secret};
    std::string name;
    if (!one.amqp_name(name)) return false;
    if (name.size() > kLongestHeader) return one.add_error("an indexed header name has at most 128 bytes");
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  if (names.size() > kMostIndexed) return v.add_error("at most 16 headers can be indexed");
  return true;
}

// clang-format off
std::vector<Key> make_table() {
  return {
    {{"broker.url", "URL", "", false, true,
      "RabbitMQ: amqp://user:password@host:port/vhost, or amqps:// for TLS. %2f is the virtual host /"},
     [](Value& v) { return v.url(config(v).broker.url, {"amqp", "amqps"}); }},
    {{"broker.urls", "list of URLs", "", false, true,
      "instead of broker.url: several addresses of one broker, e.g. the nodes of a cluster; a list, or a comma-separated string"},
     [](Value& v) { return v.urls(config(v).broker.url, config(v).broker.other_urls, {"amqp", "amqps"}); }},
    {{"broker.password_file", "file", "", false, false,
      "file whose first line is the password for broker.url or all broker.urls; takes precedence over a password in the URL"},
     [](Value& v) { return v.file(config(v).broker.password_file); }},
    {{"broker.prefix", "name", "rung", false, false,
      "name prefix of every exchange and queue that Rung declares"},
     [](Value& v) { return set_prefix(v, config(v).broker.prefix); }},
    {{"broker.ca", "file", "", false, false,
      "amqps: CA certificates (PEM) that the broker's certificate is verified against; default: the system's CAs"},
     [](Value& v) { return v.file(config(v).broker.ca); }},
    {{"broker.cert", "file", "", false, false, "amqps: client certificate (PEM); requires broker.key"},
     [](Value& v) { return v.file(config(v).broker.cert); }},
    {{"broker.key", "file", "", false, false, "amqps: private key (PEM) of the client certificate"},
     [](Value& v) { return v.file(config(v).broker.key); }},
    {{"broker.verify_host", "true or false", "true", false, false,
      "amqps: require that the broker's certificate matches the host in the URL"},
     [](Value& v) { return v.boolean(config(v).broker.verify_host); }},
    {{"broker.prefetch", "1 to 65535", "1000", false, false,
      "maximum number of unacked messages received but not yet committed"},
     [](Value& v) { return v.integer(config(v).broker.prefetch, 1, 65535); }},
    {{"broker.max_unconfirmed", "1 to 100000", "2000", false, false,
      "maximum number of published messages without a confirm"},
     [](Value& v) { return v.integer(config(v).broker.max_unconfirmed, 1, 100'000); }},
    {{"broker.heartbeat", "whole seconds", "10s", false, false,
      "AMQP heartbeat interval; not longer than the lease (default: the lease, at most 10s)"},
     [](Value& v) { return v.whole_seconds(config(v).broker.heartbeat, seconds{1}, minutes{5}); }},
    {{"broker.topology_check", "duration", "30s", false, false,
      "how often Rung checks its exchanges, queues and bindings, and redeclares missing ones"},
     [](Value& v) { return v.duration(config(v).broker.rabbitmq.topology_check, Ms{100}, std::chrono::hours{1}); }},
    {{"broker.queue_type", "auto, classic or quorum", "auto", false, false,
      "type of the queues that Rung declares; auto: quorum on a cluster, classic on a single node, by the "
      "management API; where that does not tell, quorum on RabbitMQ 4 and newer, else classic"},
     [](Value& v) { return v.choice(config(v).broker.rabbitmq.queue_type, {"auto", "classic", "quorum"}); }},
    {{"broker.management", "URL", "", false, true,
      "RabbitMQ's management API, used to check which queues are attached; default: the broker's hosts, port 15672"},
     [](Value& v) { return v.url(config(v).broker.rabbitmq.management, {"http", "https"}); }},
    {{"broker.attachment_check", "duration", "1m", false, false,
      "how often the sidecar checks through the management API that its queues are attached"},
     [](Value& v) { return v.duration(config(v).attachment_check, seconds{1}, hours{24}); }},

    {{"broker.targets.allow", "list of names", "", true, false,
      "queues and exchanges that message headers may name as a target, in addition to those in this config and attached queues; * matches any characters; default: all that are not denied"},
     set_allow},
    {{"broker.targets.deny", "list of names", "", true, false,
      "queues and exchanges that headers may never name; takes precedence over allow; rung.* is always denied, amq.* unless allow lists it"},
     [](Value& v) { return v.list_of_patterns(v.draft.deny); }},

    {{"results.require_token", "true or false", "true", false, false,
      "results, and failures with a retry-id, must carry the retry-token of their delivery"},
     [](Value& v) { return v.boolean(config(v).require_token); }},

    {{"store.url", "URL", "", false, true, "MySQL or MariaDB: mysql://user:password@host:port/schema"},
     [](Value& v) { return v.url(config(v).store.url, {"mysql"}); }},
    {{"store.urls", "list of URLs", "", false, true,
      "instead of store.url: several addresses of one database, of which the first that accepts writes is used; a list, or a comma-separated string"},
     [](Value& v) { return v.urls(config(v).store.url, config(v).store.other_urls, {"mysql"}); }},
    {{"store.password_file", "file", "", false, false,
      "file whose first line is the password for store.url or all store.urls; takes precedence over a password in the URL"},
     [](Value& v) { return v.file(config(v).store.password_file); }},
    {{"store.migrate", "true or false", "true", false, false,
      "rung run creates and upgrades the schema; false: only rung migrate does"},
     [](Value& v) { return v.boolean(config(v).store.migrate); }},
    {{"store.tls", "off or verify", "off", false, false,
      "verify: use TLS and verify the server's certificate and host name"},
     [](Value& v) { return v.choice(config(v).store.tls, {"off", "verify"}); }},
    {{"store.ca", "file", "", false, false,
      "with tls: verify: CA certificates (PEM) that the server's certificate is verified against"},
     [](Value& v) { return v.file(config(v).store.ca); }},
    {{"store.cert", "file", "", false, false, "with tls: verify: client certificate (PEM); requires store.key"},
     [](Value& v) { return v.file(config(v).store.cert); }},
    {{"store.key", "file", "", false, false, "with tls: verify: private key (PEM) of the client certificate"},
     [](Value& v) { return v.file(config(v).store.key); }},
    {{"store.connections", "1 to 64", "3", false, false, "number of database connections for leases (1) and messages (the others); each has its own thread. Gates have two more; sweeps, upkeep and retention one each"},
     [](Value& v) { return v.integer(config(v).store.connections, 1, 64); }},
    {{"store.timeout", "whole seconds", "10s", false, false,
      "timeout for connecting and for each read and write"},
     [](Value& v) { return v.whole_seconds(config(v).store.timeout, seconds{1}, minutes{10}); }},

    {{"groups.*.prefix", "name", "rung-NAME", false, false,
      "broker.prefix of this group, if several groups share one broker; see docs/performance.md"},
     [](Value& v) { return set_prefix(v, group(v).prefix); }},
    {{"groups.*.queues", "list of names", "", true, false,
      "queues that belong to this group; * matches any characters; if several groups match a queue, an exact name wins, then the first group in the file"},
     set_group_queues},
    {{"groups.*.store.url", "URL", "", false, true, "store.url of this group; each group needs its own database"},
     [](Value& v) { return v.url(group(v).url, {"mysql"}); }},
    {{"groups.*.store.urls", "list of URLs", "", false, true, "store.urls of this group, instead of its store.url"},
     [](Value& v) { return v.urls(group(v).url, group(v).other_urls, {"mysql"}); }},
    {{"groups.*.store.password_file", "file", "", false, false,
      "store.password_file of this group; default: the one under store"},
     [](Value& v) { return v.file(group(v).password_file); }},
    {{"groups.*.http.listen", "host:port", "", false, false,
      "http.listen of this group's sidecars; default: the one under http"},
     [](Value& v) { return v.host_port(group(v).listen); }},

    {{"node", "name", "", false, false,
      "name of this instance, unique among all that share the database; %H is the host name, %i the variable RUNG_INSTANCE; default: the host name"},
     [](Value& v) { return v.node_name(config(v).node, kLongestName); }},
    {{"lease", "duration", "10s", false, false, "after this long without a heartbeat, another instance takes over; 1s to 1h"},
     [](Value& v) { return v.duration(config(v).lease, seconds{1}, hours{1}); }},
    {{"window", "duration", "10m", false, false,
      "how far ahead due times are loaded into memory; later ones stay in the database; from the lease to 7d"},
     [](Value& v) { return v.duration(config(v).window, seconds{1}, hours{7 * 24}); }},
    {{"drain", "duration", "10s", false, false, "maximum time for a shutdown on SIGTERM; 100ms to 1h"},
     [](Value& v) { return v.duration(config(v).drain, Ms{100}, hours{1}); }},
    {{"start.wait", "duration", "30s", false, false,
      "exit if a service has refused the login or a permission for this long since the start; an unreachable service is retried without limit; 0s to 1h"},
     [](Value& v) { return v.duration(config(v).start_wait, Ms{0}, hours{1}); }},
    {{"max_loaded", "1 to 100000000", "1000000", false, false,
      "maximum number of due times in memory, regardless of the window; some tens of bytes each"},
     [](Value& v) { return v.integer(config(v).max_loaded, 1, 100'000'000); }},
    {{"catch_up", "1 to 1000000", "1000", true, false,
      "maximum rate, in tasks per second and per queue, for tasks overdue by more than 5s after an outage"},
     [](Value& v) { return v.optional(v.draft.catch_up, &Value::integer, 1, kMostCatchUp); }},
    {{"retention", "duration, or off", "off", true, false,
      "tasks that succeeded or were cancelled or discarded longer ago than this are deleted, with their history and body; at least 1h"},
     set_retention},
    {{"index_headers", "list of names", "", false, false,
      "headers to index for searches with rung list --header NAME=VALUE; each adds a row to rung_task_headers"},
     set_index_headers},
    {{"parked", "keep or publish", "keep", true, false,
      "when a task is parked: keep only keeps its row, publish also sends a copy to the exchange rung.parked"},
     [](Value& v) { return set_parked(v, v.draft.publish_parked); }},

    {{"log.level", "trace, debug, info, warn or error", "info", true, false, "minimum log level"},
     [](Value& v) { return v.choice(config(v).log.level, {"trace", "debug", "info", "warn", "error"}); }},
    {{"log.format", "text or json", "text", true, false, "text: key=value pairs; json: one object per line"},
     [](Value& v) { return v.choice(config(v).log.format, {"text", "json"}); }},

    {{"ladders.*", "list of durations", "", true, false,
      "a named ladder: its delays, level 1 first; or the keys below"},
     [](Value& v) { return v.list_of_durations(ladder(v)); }},
    {{"ladders.*.base", "duration", "", true, false, "first delay of a computed ladder"},
     [](Value& v) { return note(v, "base", v.duration(ladder(v).spec.base, kLeastMs, levels::kLongest)); }},
    {{"ladders.*.factor", "number from 1", "2", true, false, "multiplier from each delay to the next"},
     [](Value& v) { return note(v, "factor", v.number(ladder(v).spec.factor)); }},
    {{"ladders.*.max", "duration", "", true, false, "maximum delay; default: 3650d"},
     [](Value& v) { return note(v, "max", v.duration(ladder(v).spec.max, kLeastMs, levels::kLongest)); }},
    {{"ladders.*.levels", "1 to 1000, or list of durations", "", true, false,
      "number of levels; or the list of delays, without base, factor and max"},
     set_levels},
    {{"ladders.*.jitter", "off, or 0% to 100%", "off", true, false,
      "lengthens each delay by a random part of it, up to this percentage; never shortens it"},
     [](Value& v) { return note(v, "jitter", v.percent_or_off(ladder(v).jitter)); }},

    {{"defaults.ladder", "name", "default", true, false, "ladder of every queue that is not under queues"},
     set_ladder},
    {{"defaults.success.presumed_after", "duration", "10m", true, false,
      "as for queues, for every queue that does not set it"},
     [](Value& v) { return set_silence(v, current_rules(v).presumed_after, current_rules(v).presumed_mark); }},
    {{"defaults.success.reported_within", "duration", "", true, false,
      "as for queues, for every queue that does not set it"},
     [](Value& v) { return set_silence(v, current_rules(v).reported_within, current_rules(v).reported_mark); }},
    {{"defaults.catch_up", "1 to 1000000", "1000", true, false, "same as the key catch_up above"},
     [](Value& v) { return v.optional(queue(v).catch_up, &Value::integer, 1, kMostCatchUp); }},
    {{"defaults.parked", "keep or publish", "keep", true, false, "same as the key parked above"},
     set_queue_parked},

    {{"queues.*.ladder", "name", "default", true, false, "ladder of the queue: one under ladders, or a predefined one"},
     set_ladder},
    {{"queues.*.success.presumed_after", "duration", "10m", true, false,
      "silence for this long after a retry means success"},
     [](Value& v) { return set_silence(v, current_rules(v).presumed_after, current_rules(v).presumed_mark); }},
    {{"queues.*.success.reported_within", "duration", "", true, false,
      "success must be reported; silence for this long after a retry means failure"},
     [](Value& v) { return set_silence(v, current_rules(v).reported_within, current_rules(v).reported_mark); }},
    {{"queues.*.catch_up", "1 to 1000000", "1000", true, false, "same as the key catch_up above, for this queue only"},
     [](Value& v) { return v.optional(queue(v).catch_up, &Value::integer, 1, kMostCatchUp); }},
    {{"queues.*.parked", "keep or publish", "keep", true, false, "same as the key parked above, for this queue only"},
     set_queue_parked},

    {{"tags.*.queue", "name", "", true, false,
      "target queue of delayed messages with this tag (property type), unless the message names a target"},
     [](Value& v) { tag(v).queue_mark = v.node.mark; return v.optional(tag(v).queue, &Value::amqp_name); }},
    {{"tags.*.exchange", "name", "", true, false, "instead of queue: target exchange"},
     [](Value& v) { tag(v).exchange_mark = v.node.mark; return v.optional(tag(v).exchange, &Value::amqp_name); }},
    {{"tags.*.routing_key", "text", "", true, false, "routing key for exchange; default: empty"},
     [](Value& v) { tag(v).routing_key_mark = v.node.mark; return v.optional(tag(v).routing_key, &Value::amqp_name); }},
    {{"tags.*.ladder", "name", "", true, false,
      "ladder for delayed messages with this tag, once they fail; default: that of the queue"},
     set_ladder},
    {{"tags.*.success.presumed_after", "duration", "", true, false,
      "as for queues, for this tag; default: that of the queue"},
     [](Value& v) { return set_silence(v, current_rules(v).presumed_after, current_rules(v).presumed_mark); }},
    {{"tags.*.success.reported_within", "duration", "", true, false,
      "as for queues, for this tag; default: that of the queue"},
     [](Value& v) { return set_silence(v, current_rules(v).reported_within, current_rules(v).reported_mark); }},

    {{"delays.*.from", "name", "", false, false,
      "exchange that Rung declares as a durable fanout: messages published to it are delayed by x-delay, as in the delayed-message plugin"},
     [](Value& v) { return set_delay_end(v, delay(v).from, delay(v).from_mark); }},
    {{"delays.*.to", "name", "", false, false,
      "exchange to forward to when due, with the original routing key"},
     [](Value& v) { return set_delay_end(v, delay(v).to, delay(v).to_mark); }},
    {{"delays.*.group", "name", "", false, false, "with groups: the group that receives these messages"},
     [](Value& v) { return set_delay_end(v, delay(v).group, delay(v).group_mark); }},
  };
}
// clang-format on

}  // namespace

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = [] {
    std::vector<Key> all = make_table();
    std::ranges::move(policy_keys(), std::back_inserter(all));
    std::ranges::move(gate_keys(), std::back_inserter(all));
    std::ranges::move(error_queue_keys(), std::back_inserter(all));
    std::ranges::move(http_keys(), std::back_inserter(all));
    std::ranges::move(oidc_keys(), std::back_inserter(all));
    std::ranges::move(otel_keys(), std::back_inserter(all));
    std::ranges::move(api_keys(), std::back_inserter(all));
    return all;
  }();
  return table;
}

}  // namespace rung::confile
