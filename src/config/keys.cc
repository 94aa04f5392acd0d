// The one table of keys. A new key is a row here, a line in examples/full.yaml and a row in
// docs/configuration.md; tests/unit/config/keys_test.cc holds the three together.
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
RuledDraft& ruled(Value& v) { return *v.draft.ruled; }  // a queue or a tag
GroupDraft& group(Value& v) { return v.draft.groups.back(); }
DelayDraft& delay(Value& v) { return v.draft.delays.back(); }

bool set_prefix(Value& v, std::string& out) {
  std::string prefix;
  if (!v.name(prefix, kLongestName)) return false;
  if (prefix.starts_with("amq.")) return v.wrong("names that begin with amq. are the broker's own");
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

// Ladder parts note where they stand: what is wrong between them is told there.
bool note(Value& v, std::string_view part, bool ok) {
  ladder(v).given.emplace(part, v.node.mark);
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
  if (!ok) ruled(v).success_broken = true;
  after = ms;
  return ok;
}

bool set_ladder(Value& v) {
  std::string name;
  ruled(v).ladder_mark = v.node.mark;
  ruled(v).ladder_substituted = v.node.substituted;
  if (!v.name(name, kLongestName)) return false;
  ruled(v).ladder = name;
  return true;
}

bool set_amqp_name(Value& v, std::optional<std::string>& out) {
  std::string name;
  if (!v.amqp_name(name)) return false;
  out = std::move(name);
  return true;
}

bool set_delay_end(Value& v, std::optional<std::string>& out, Mark& mark) {
  mark = v.node.mark;
  delay(v).substituted = delay(v).substituted || v.node.substituted;
  return set_amqp_name(v, out);
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

// Below an hour nobody can look at what has just ended, and a word that comes late (a result, a redelivery
// after a broker's restart, a failure after a presumed success) finds nothing that it belongs to.
bool set_retention(Value& v) {
  if (v.node.kind == Node::Kind::text && v.node.text == "off") {
    config(v).retention.reset();
    return true;
  }
  Ms keep{0};
  if (!v.duration(keep, kLeastMs, levels::kLongest)) return false;
  if (keep < hours{1})
    return v.wrong(
        v.shown() +
        " is too short: at least 1h, so that a result or a failure that comes late finds its task");
  config(v).retention = keep;
  return true;
}

constexpr std::size_t kMostIndexed = 16, kLongestHeader = 128;

bool set_index_headers(Value& v) {
  if (v.node.kind != Node::Kind::list)
    return v.wrong("a list of header names belongs here, e.g. [tenant, region]");
  auto& names = config(v).store.index_headers;
  for (const Node& item : v.node.items) {
    Value one{v.draft, v.problems, item, v.path, v.secret};
    std::string name;
    if (!one.amqp_name(name)) return false;
    if (name.size() > kLongestHeader)
      return one.wrong("a header's name that is indexed has at most 128 bytes");
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  if (names.size() > kMostIndexed) return v.wrong("at most 16 headers can be indexed");
  return true;
}

bool set_catch_up(Value& v, std::optional<int>& out) {
  int rate = 0;
  if (!v.integer(rate, 1, kMostCatchUp)) return false;
  out = rate;
  return true;
}

// clang-format off
std::vector<Key> make_table() {
  return {
    {{"broker.url", "URL", "", false, true,
      "RabbitMQ: amqp://user:password@host:port/vhost, or amqps:// for TLS. %2f is the virtual host /"},
     [](Value& v) { return v.url(config(v).broker.url, {"amqp", "amqps"}); }},
    {{"broker.urls", "list of URLs", "", false, true,
      "instead of broker.url: several addresses of one broker, e.g. the nodes of a cluster; or a text with commas"},
     [](Value& v) { return v.urls(config(v).broker.url, config(v).broker.other_urls, {"amqp", "amqps"}); }},
    {{"broker.password_file", "file", "", false, false,
      "its first line is the password of broker.url or of all broker.urls, instead of one within the URL"},
     [](Value& v) { return v.file(v.draft.broker_password_file); }},
    {{"broker.prefix", "name", "rung", false, false,
      "first part of the name of every exchange and queue that Rung declares"},
     [](Value& v) { return set_prefix(v, config(v).broker.prefix); }},
    {{"broker.ca", "file", "", false, false,
      "amqps: certificates (PEM) of the authorities that may have signed the broker's; left out: the system's"},
     [](Value& v) { return v.file(config(v).broker.ca); }},
    {{"broker.cert", "file", "", false, false, "amqps: the client certificate (PEM), with broker.key"},
     [](Value& v) { return v.file(config(v).broker.cert); }},
    {{"broker.key", "file", "", false, false, "amqps: the client certificate's private key (PEM)"},
     [](Value& v) { return v.file(config(v).broker.key); }},
    {{"broker.verify_host", "true or false", "true", false, false,
      "amqps: the broker's certificate must name the host of the URL"},
     [](Value& v) { return v.boolean(config(v).broker.verify_host); }},
    {{"broker.prefetch", "1 to 65535", "1000", false, false,
      "failed messages taken in at a time before their rows are committed"},
     [](Value& v) { return v.integer(config(v).broker.prefetch, 1, 65535); }},
    {{"broker.max_unconfirmed", "1 to 100000", "2000", false, false,
      "retries published at a time before the broker has confirmed them"},
     [](Value& v) { return v.integer(config(v).broker.max_unconfirmed, 1, 100'000); }},
    {{"broker.heartbeat", "whole seconds", "10s", false, false,
      "how often broker and Rung show each other that they live; not above the lease (left out: the lease, 10s at most)"},
     [](Value& v) { return v.whole_seconds(config(v).broker.heartbeat, seconds{1}, minutes{5}); }},
    {{"broker.topology_check", "duration", "30s", false, false,
      "how often Rung's exchanges, queues and bindings are checked and, where missing, declared again"},
     [](Value& v) { return v.duration(config(v).broker.rabbitmq.topology_check, Ms{100}, std::chrono::hours{1}); }},
    {{"broker.queue_type", "classic or quorum", "classic", false, false, "type of the queues that Rung declares"},
     [](Value& v) { return v.choice(config(v).broker.rabbitmq.queue_type, {"classic", "quorum"}); }},
    {{"broker.management", "URL", "", false, true,
      "RabbitMQ's management API, to see what is attached; left out: the broker's hosts, port 15672"},
     [](Value& v) { return v.url(config(v).broker.rabbitmq.management, {"http", "https"}); }},
    {{"broker.attachment_check", "duration", "1m", false, false,
      "how often the sidecar asks the management API whether its queues are attached"},
     [](Value& v) { return v.duration(config(v).attachment_check, seconds{1}, hours{24}); }},

    {{"broker.targets.allow", "list of names", "", true, false,
      "queues and exchanges that a message's headers may name as its target, beside those that the config names and those that are attached; * stands for any characters; left out: all that are not denied"},
     set_allow},
    {{"broker.targets.deny", "list of names", "", true, false,
      "those that no header may name, whatever allow says; names of Rung's own (rung.*) always are, amq.* unless allow names it"},
     [](Value& v) { return v.list_of_patterns(v.draft.deny); }},

    {{"results.require_token", "true or false", "", false, false,
      "a result, or a failure that names a retry-id, must show its delivery's retry-token; left out: true where this release or a later one made the database"},
     [](Value& v) {
       bool required = false;
       if (!v.boolean(required)) return false;
       config(v).require_token = required;
       return true;
     }},

    {{"store.url", "URL", "", false, true, "MySQL or MariaDB: mysql://user:password@host:port/schema"},
     [](Value& v) { return v.url(config(v).store.url, {"mysql"}); }},
    {{"store.urls", "list of URLs", "", false, true,
      "instead of store.url: several addresses of one database, of which the first that takes writes serves; or a text with commas"},
     [](Value& v) { return v.urls(config(v).store.url, config(v).store.other_urls, {"mysql"}); }},
    {{"store.password_file", "file", "", false, false,
      "its first line is the password of store.url or of all store.urls, instead of one within the URL"},
     [](Value& v) { return v.file(config(v).store.password_file); }},
    {{"store.migrate", "true or false", "true", false, false,
      "rung run creates and upgrades the schema by itself; false: only rung migrate does"},
     [](Value& v) { return v.boolean(config(v).store.migrate); }},
    {{"store.tls", "off or verify", "off", false, false,
      "verify: TLS, with the server's certificate and its host's name checked"},
     [](Value& v) { return v.choice(config(v).store.tls, {"off", "verify"}); }},
    {{"store.ca", "file", "", false, false,
      "tls: verify: certificates (PEM) of the authorities that may have signed the server's"},
     [](Value& v) { return v.file(config(v).store.ca); }},
    {{"store.cert", "file", "", false, false, "tls: verify: the client certificate (PEM), with store.key"},
     [](Value& v) { return v.file(config(v).store.cert); }},
    {{"store.key", "file", "", false, false, "tls: verify: the client certificate's private key (PEM)"},
     [](Value& v) { return v.file(config(v).store.key); }},
    {{"store.connections", "1 to 64", "3", false, false, "connections to the database, a thread each"},
     [](Value& v) { return v.integer(config(v).store.connections, 1, 64); }},
    {{"store.timeout", "whole seconds", "10s", false, false,
      "the longest that connecting, a read or a write may take"},
     [](Value& v) { return v.whole_seconds(config(v).store.timeout, seconds{1}, minutes{10}); }},

    {{"groups.*.prefix", "name", "rung-NAME", false, false,
      "broker.prefix of this group, one of several behind one broker; docs/scale.md"},
     [](Value& v) { return set_prefix(v, group(v).prefix); }},
    {{"groups.*.queues", "list of names", "", true, false,
      "the queues that belong to this group; * stands for any characters; a queue that two match belongs to the one that has its plain name, else to the first"},
     set_group_queues},
    {{"groups.*.store.url", "URL", "", false, true, "store.url of this group: each has a database of its own"},
     [](Value& v) { return v.url(group(v).url, {"mysql"}); }},
    {{"groups.*.store.urls", "list of URLs", "", false, true, "store.urls of this group, instead of its store.url"},
     [](Value& v) { return v.urls(group(v).url, group(v).other_urls, {"mysql"}); }},
    {{"groups.*.store.password_file", "file", "", false, false,
      "store.password_file of this group; left out: the one under store"},
     [](Value& v) { return v.file(group(v).password_file); }},
    {{"groups.*.http.listen", "host:port", "", false, false,
      "http.listen of this group's sidecars; left out: the one under http"},
     [](Value& v) { return v.host_port(group(v).listen); }},

    {{"http.listen", "host:port", "", false, false, "where the HTTP API listens; left out: it doesn't"},
     [](Value& v) { return v.host_port(config(v).http.listen); }},
    {{"http.token_file", "file", "", false, false,
      "its first line is the token that the HTTP API asks for; needed where http.listen is not a loopback address"},
     [](Value& v) { return v.file(config(v).http.token_file); }},
    {{"http.read_token_file", "file", "", false, false, "its first line is a second token, which may only read"},
     [](Value& v) { return v.file(config(v).http.read_token_file); }},
    {{"http.cert", "file", "", false, false, "HTTPS: the server's certificate chain (PEM), with http.key"},
     [](Value& v) { return v.file(config(v).http.cert); }},
    {{"http.key", "file", "", false, false, "HTTPS: the certificate's private key (PEM)"},
     [](Value& v) { return v.file(config(v).http.key); }},
    {{"http.connections", "1 to 512", "64", false, false,
      "open HTTP connections, a thread each; where all are taken, one that waits for a request is ended, else a new one refused"},
     [](Value& v) { return v.integer(config(v).http.connections, 1, 512); }},
    {{"http.connections_per_address", "0 to 512", "0", false, false,
      "how many of http.connections one address may have, loopback too; 0: three quarters of them"},
     [](Value& v) { return v.integer(config(v).http.connections_per_address, 0, 512); }},
    {{"http.max_body", "1 to 1024", "16", false, false, "the largest body of an HTTP request, in MB"},
     [](Value& v) { return v.integer(config(v).http.max_body, 1, 1024); }},
    {{"http.timeout", "duration", "10s", false, false,
      "the longest that an HTTP request may take to arrive, to be written, and its answer to be taken; 100ms to 10m"},
     [](Value& v) { return v.duration(config(v).http.timeout, Ms{100}, minutes{10}); }},

    {{"node", "name", "", false, false,
      "this instance's name, its own among all that share the database; left out: the host's name"},
     [](Value& v) { return v.name(config(v).node, kLongestName); }},
    {{"lease", "duration", "10s", false, false, "an instance that is silent for this long is taken over; 1s to 1h"},
     [](Value& v) { return v.duration(config(v).lease, seconds{1}, hours{1}); }},
    {{"window", "duration", "10m", false, false,
      "how far ahead due times are held in memory; the rest waits in the database; from the lease to 7d"},
     [](Value& v) { return v.duration(config(v).window, seconds{1}, hours{7 * 24}); }},
    {{"drain", "duration", "10s", false, false, "the longest that SIGTERM may take; 100ms to 1h"},
     [](Value& v) { return v.duration(config(v).drain, Ms{100}, hours{1}); }},
    {{"start.wait", "duration", "30s", false, false,
      "a login or right that is refused for so long, by a service that has never served us, ends the process; a service that is not reached is waited for; 0s to 1h"},
     [](Value& v) { return v.duration(config(v).start_wait, Ms{0}, hours{1}); }},
    {{"max_loaded", "1 to 100000000", "1000000", false, false,
      "the most due times held in memory, whatever the window; some tens of bytes each"},
     [](Value& v) { return v.integer(config(v).max_loaded, 1, 100'000'000); }},
    {{"catch_up", "1 to 1000000", "1000", true, false,
      "what is overdue by more than 5s, after an outage, goes out at most at this rate: tasks a second, for each queue apart"},
     [](Value& v) { return set_catch_up(v, v.draft.catch_up); }},
    {{"retention", "duration, or off", "off", true, false,
      "what succeeded, was cancelled or discarded longer ago than this is deleted, with its history and body; from 1h"},
     set_retention},
    {{"index_headers", "list of names", "", false, false,
      "headers by whose value tasks can be found: rung list --header NAME=VALUE; a row for each in rung_task_headers"},
     set_index_headers},
    {{"parked", "keep or publish", "keep", true, false,
      "what runs out of ladder: keep leaves it to its row, publish also sends a copy to the exchange rung.parked"},
     [](Value& v) { return set_parked(v, v.draft.publish_parked); }},

    {{"log.level", "trace, debug, info, warn or error", "info", false, false, "the least that is logged"},
     [](Value& v) { return v.choice(config(v).log.level, {"trace", "debug", "info", "warn", "error"}); }},
    {{"log.format", "text or json", "text", false, false, "text: key=value; json: an object a line"},
     [](Value& v) { return v.choice(config(v).log.format, {"text", "json"}); }},

    {{"ladders.*", "list of durations", "", true, false,
      "a ladder by name: its delays, level 1 first; or the keys below"},
     [](Value& v) { return v.list_of_durations(ladder(v)); }},
    {{"ladders.*.base", "duration", "", true, false, "the first delay of a ladder that is computed"},
     [](Value& v) { return note(v, "base", v.duration(ladder(v).spec.base, kLeastMs, levels::kLongest)); }},
    {{"ladders.*.factor", "number from 1", "2", true, false, "each further delay is this many times the one before it"},
     [](Value& v) { return note(v, "factor", v.number(ladder(v).spec.factor)); }},
    {{"ladders.*.max", "duration", "", true, false, "no delay is longer than this; left out: 3650d"},
     [](Value& v) { return note(v, "max", v.duration(ladder(v).spec.max, kLeastMs, levels::kLongest)); }},
    {{"ladders.*.levels", "1 to 1000, or list of durations", "", true, false,
      "how many delays are computed; or the delays themselves, which then have no base, factor and max"},
     set_levels},
    {{"ladders.*.jitter", "off, or 0% to 100%", "off", true, false,
      "each delay becomes longer at random, by this much of it at most; never shorter"},
     [](Value& v) { return note(v, "jitter", v.percent_or_off(ladder(v).jitter)); }},

    {{"defaults.ladder", "name", "default", true, false, "the ladder of every queue that is not under queues"},
     set_ladder},
    {{"defaults.success.presumed_after", "duration", "10m", true, false,
      "as for queues, for every queue that does not say it itself"},
     [](Value& v) { return set_silence(v, ruled(v).presumed_after, ruled(v).presumed_mark); }},
    {{"defaults.success.reported_within", "duration", "", true, false,
      "as for queues, for every queue that does not say it itself"},
     [](Value& v) { return set_silence(v, ruled(v).reported_within, ruled(v).reported_mark); }},
    {{"defaults.catch_up", "1 to 1000000", "1000", true, false, "as the key catch_up above"},
     [](Value& v) { return set_catch_up(v, queue(v).catch_up); }},
    {{"defaults.parked", "keep or publish", "keep", true, false, "as the key parked above"},
     set_queue_parked},

    {{"queues.*.ladder", "name", "default", true, false, "the queue's ladder: one under ladders, or a ready one"},
     set_ladder},
    {{"queues.*.success.presumed_after", "duration", "10m", true, false,
      "silence for this long after a retry means that it succeeded"},
     [](Value& v) { return set_silence(v, ruled(v).presumed_after, ruled(v).presumed_mark); }},
    {{"queues.*.success.reported_within", "duration", "", true, false,
      "success must be reported; silence for this long means that the retry failed"},
     [](Value& v) { return set_silence(v, ruled(v).reported_within, ruled(v).reported_mark); }},
    {{"queues.*.catch_up", "1 to 1000000", "1000", true, false, "as the key catch_up above, for this queue alone"},
     [](Value& v) { return set_catch_up(v, queue(v).catch_up); }},
    {{"queues.*.parked", "keep or publish", "keep", true, false, "as the key parked above, for this queue alone"},
     set_queue_parked},

    {{"tags.*.queue", "name", "", true, false,
      "where a delayed message with this tag (its property type) goes, if it doesn't say so itself"},
     [](Value& v) { tag(v).queue_mark = v.node.mark; return set_amqp_name(v, tag(v).queue); }},
    {{"tags.*.exchange", "name", "", true, false, "instead of queue: the exchange that it is published to, ..."},
     [](Value& v) { tag(v).exchange_mark = v.node.mark; return set_amqp_name(v, tag(v).exchange); }},
    {{"tags.*.routing_key", "text", "", true, false, "... and with which routing key; left out: an empty one"},
     [](Value& v) { tag(v).routing_key_mark = v.node.mark; return set_amqp_name(v, tag(v).routing_key); }},
    {{"tags.*.ladder", "name", "", true, false,
      "the ladder of a delayed message with this tag, once it fails; left out: its queue's"},
     set_ladder},
    {{"tags.*.success.presumed_after", "duration", "", true, false,
      "as for queues, for this tag; left out: its queue's"},
     [](Value& v) { return set_silence(v, ruled(v).presumed_after, ruled(v).presumed_mark); }},
    {{"tags.*.success.reported_within", "duration", "", true, false,
      "as for queues, for this tag; left out: its queue's"},
     [](Value& v) { return set_silence(v, ruled(v).reported_within, ruled(v).reported_mark); }},

    {{"delays.*.from", "name", "", false, false,
      "an exchange, declared as a durable fanout: what is published to it waits for its x-delay, as in the delayed-message plugin"},
     [](Value& v) { return set_delay_end(v, delay(v).from, delay(v).from_mark); }},
    {{"delays.*.to", "name", "", false, false,
      "the exchange that it goes on to then, with its routing key"},
     [](Value& v) { return set_delay_end(v, delay(v).to, delay(v).to_mark); }},
    {{"delays.*.group", "name", "", false, false, "where there are groups: the one that takes these messages in"},
     [](Value& v) { return set_delay_end(v, delay(v).group, delay(v).group_mark); }},
  };
}
// clang-format on

}  // namespace

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = make_table();
  return table;
}

}  // namespace rung::confile
