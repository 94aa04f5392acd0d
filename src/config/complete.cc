// Checks that involve several keys of broker, databases and groups, and files with their passwords.
#include <unistd.h>

#include <algorithm>
#include <array>

#include "src/config/load.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/url.h"

namespace rung {

std::string which_group(const QueueGroups& groups) {
  return "the config has groups: choose one with --group NAME or RUNG_GROUP: " + groups.names();
}

namespace confile {
namespace {

// A section with the addresses of one broker or database: `url` or `urls`.
class Service {
 public:
  // `around`: what has the section, or should have it.
  Service(std::string section, const Node& around, Load& load)
      : section_(std::move(section)),
        around_(around),
        load_(load),
        urls_(around.get<Urls>(key()).value_or(Urls())) {}

  // "groups.eu.store"
  std::string name() const { return around_.path_of(section_); }
  // The key with the addresses.
  std::string path() const { return around_.path_of(key()); }
  const Node* find(std::string_view key) const { return around_.find(at(key)); }
  const Urls& urls() const { return urls_; }
  // At the addresses.
  void wrong(const std::string& what) const { load_.wrong(around_, key(), what); }

  void check(std::string_view example, bool needed) const {
    const bool has_one = find("url") != nullptr, has_list = find("urls") != nullptr;
    if (needed && !has_one && !has_list)
      load_.problems.add(around_.mark_at(section_), name() + ".url is missing: write " + name() +
                                                        ": { url: \"" + std::string(example) + "\" }");
    if (has_one && has_list)
      wrong(name() + ".url is also set: keep only one of them; put all addresses in " + path() +
            ", or a single address in " + name() + ".url");
  }

  // Its first line takes the place of the passwords in the URLs. nullptr: there is none.
  void check_password(const Node* file) const {
    if (file == nullptr || file->invalid || urls_.empty() || !load_.reads_files_of(file->path)) return;
    const auto without = std::ranges::find_if(urls_, [](const Url& url) { return url.user.empty(); });
    if (without != urls_.end())
      return load_.wrong(
          *file, "",
          "the URL has no user for this password: write " + without->scheme + "://USER@... in " + path());
    const auto line = read_password_file(*file->get<std::string>());
    if (!line) load_.wrong(*file, "", line.error().message);
  }

 private:
  std::string at(std::string_view key) const { return section_ + "." + std::string(key); }
  std::string key() const { return at(find("urls") != nullptr ? "urls" : "url"); }

  const std::string section_;  // "store"
  const Node& around_;
  Load& load_;
  const Urls urls_;
};

bool same_database(const Service& one, const Service& other) {
  return std::ranges::any_of(one.urls(), [&](const Url& url) {
    return std::ranges::any_of(
        other.urls(), [&](const Url& its) { return url.path == its.path && place_of(url) == place_of(its); });
  });
}

using Stores = std::vector<Service>;  // one per group, or `store`

// Absent, or present and valid: the config's value can be checked.
bool usable(std::string_view path, const Load& load) { return !load.root.has(path) || load.root.valid(path); }

void compare_groups(std::size_t first, std::size_t second, const Stores& stores, Load& load) {
  const QueueGroups::Group &one = load.config.groups.all[first], &other = load.config.groups.all[second];
  const Node& node = load.root.entries_at("groups")[second].value;
  if (one.prefix == other.prefix)
    load.wrong(node, "prefix", "same prefix as group " + one.name + ": each group needs its own prefix");
  if (same_database(stores[first], stores[second]))
    stores[second].wrong("same host, port and schema as group " + one.name +
                         ": each group needs its own database");
  for (const Node& queue : node.items_at("queues")) {
    if (std::ranges::find(one.queues, queue.text) != one.queues.end())
      load.wrong(queue, "", one.name + " has the same entry: a queue belongs to one group");
  }
}

void choose_group(Load& load) {
  QueueGroups& groups = load.config.groups;
  std::string& prefix = load.config.broker.prefix;
  const GroupChoice& choice = load.choice;
  prefix.clear();
  if (const auto* group = groups.find(choice.name)) {
    groups.own = group->name;
    prefix = group->prefix;
  } else if (!choice.name.empty()) {
    load.problems.add({}, choice.source + ": unknown group " + in_quotes(choice.name) +
                              ": available groups: " + groups.names());
  } else if (!choice.queue.empty()) {
    load.problems.add({}, "no group has queue " + in_quotes(choice.queue) +
                              ": add it to groups.NAME.queues, or use --group NAME: " + groups.names());
  } else if (load.purpose != ConfigFor::check) {
    load.problems.add({}, which_group(groups));
  }
}

// Conflicts between groups, and the choice of one.
void resolve_groups(const Stores& stores, Load& load) {
  const GroupChoice& choice = load.choice;
  load.config.groups = groups_of(load);
  const std::size_t count = load.config.groups.all.size();
  if (count == 0) {
    if (!choice.name.empty() && !load.root.has("groups"))
      load.problems.add({}, choice.source + " is " + in_quotes(choice.name) +
                                ", but the config has no groups: omit it, or add groups: "
                                "(docs/performance.md)");
    return;
  }
  for (const auto& [key, place] : {std::pair{"store.url", "store.url"}, std::pair{"store.urls", "store.urls"},
                                   std::pair{"broker.prefix", "prefix"}}) {
    if (load.root.has(key))
      load.problem(key, "each group needs its own: write it as groups.NAME." + std::string(place));
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) compare_groups(j, i, stores, load);
  }
  choose_group(load);
}

void check_tls(const Service& broker, Load& load) {
  const Node& root = load.root;
  check_pair(load, "broker");
  const bool plain = !broker.urls().empty() && broker.urls().front().scheme != "amqps";
  for (const auto* path : {"broker.ca", "broker.cert", "broker.key", "broker.verify_host"}) {
    if (plain && root.has(path))
      load.problem(path, "only valid with amqps://, but " + broker.path() + " uses amqp://");
  }
  check_pair(load, "store");
  const bool verify = load.config.store.tls == "verify", known = usable("store.tls", load);
  if (known && verify && !root.has("store.ca"))
    load.problem("store.tls", "verify requires store.ca, the CA certificates for the server's certificate");
  for (const auto* path : {"store.ca", "store.cert", "store.key"}) {
    if (known && !verify && root.has(path)) load.problem(path, "only valid with store.tls: verify");
  }
}

void check_times(Load& load) {
  const auto text = [](Ms ms) { return levels::format_duration(ms); };
  if (!usable("lease", load)) return;
  const Ms lease = load.config.lease, window = load.config.window;
  Ms& heartbeat = load.config.broker.heartbeat;
  if (!load.root.has("broker.heartbeat")) {
    heartbeat = std::min<Ms>(heartbeat, std::chrono::floor<std::chrono::seconds>(lease));
  } else if (usable("broker.heartbeat", load) && heartbeat > lease) {
    // The broker keeps a dead instance's connection until three heartbeats are missed, and publishes of
    // that instance are not repeated before.
    load.problem("broker.heartbeat",
                 text(heartbeat) + " is longer than the lease (" + text(lease) + "): it must not be longer");
  }
  if (usable("window", load) && window < lease)
    load.problem(load.root.has("window") ? "window" : "lease", "the window (" + text(window) +
                                                                   ") is shorter than the lease (" +
                                                                   text(lease) + "): it must not be shorter");
}

void complete_node(Load& load) {
  std::string& node = load.config.node;
  if (load.root.has("node")) return;
  node = host_name();
  if (node.empty() || node.size() > kLongestName || !is_plain(node))
    load.problems.add({}, "node is missing, and the host name is not a valid node name: write node: NAME");
}

void check_passwords(const Service& broker, const Stores& stores, Load& load) {
  Config& config = load.config;
  broker.check_password(load.root.find("broker.password_file"));
  for (const Service& store : stores) {
    // Its own, or that of all groups: only for the group that is needed.
    const Node* const own = store.find("password_file");
    if (load.reads_files_of(store.name() + ".password_file"))
      store.check_password(own != nullptr ? own : load.root.find("store.password_file"));
    if (!config.groups.empty() && store.name() != "groups." + config.groups.own + ".store") continue;
    config.store.urls = store.urls();
    if (own != nullptr) config.store.password_file = own->text_at("");
  }
}

void complete_services(Load& load) {
  const Service broker("broker", load.root, load);
  Stores stores;
  for (const auto& [key, group] : load.root.entries_at("groups")) stores.emplace_back("store", group, load);
  if (stores.empty()) stores.emplace_back("store", load.root, load);
  resolve_groups(stores, load);
  broker.check("amqp://user:password@host:port/%2f", load.purpose != ConfigFor::reading);
  for (const Service& store : stores) store.check("mysql://user:password@host:port/schema", true);
  check_tls(broker, load);
  check_passwords(broker, stores, load);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

QueueGroups groups_of(const Load& load) {
  QueueGroups groups;
  for (const auto& [key, node] : load.root.entries_at("groups")) {
    QueueGroups::Group group{key.text, "rung-" + key.text, {}};
    fill(node, group);
    groups.all.push_back(std::move(group));
  }
  return groups;
}

void check_pair(Load& load, const std::string& section) {
  const std::string cert = section + ".cert", key = section + ".key";
  if (load.root.has(cert) && !load.root.has(key)) load.problem(cert, "requires " + key);
  if (load.root.has(key) && !load.root.has(cert)) load.problem(key, "requires " + cert);
}

void complete(Load& load) {
  if (load.root.has("api")) return complete_api(load);
  Config& config = load.config;
  complete_services(load);
  check_times(load);
  complete_node(load);
  complete_delays(load);
  complete_http(load);
  config.dialects = read_dialects(load);
  if (load.root.valid("dialects")) {
    for (const auto& [name, dialect] : config.dialects)
      config.at_start["dialects " + name].shown = dialect->text;
  }
  config.store.cause_rules = build_cause_rules(load);
  config.rules = build_rules(load);
  if (config.rules != nullptr) config.broker.error_queues = config.rules->error_queues_ptr();
  for (const QueueGroups::Group& group : config.groups.all)
    config.broker.group_prefixes.push_back(group.prefix);
}

}  // namespace confile
}  // namespace rung
