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

constexpr int kMysqlPort = 3306;

std::string group_path(const std::string& group, std::string_view key) {
  return "groups." + group + "." + std::string(key);
}

// A section with the addresses of one broker or database: `url` or `urls`.
class Service {
 public:
  // `section`: nullptr where the file has none; its path is `name`, and `around` what it should be in.
  Service(std::string name, const Node* section, const Node& around, Load& load)
      : name_(std::move(name)), section_(section != nullptr ? *section : around), load_(load) {
    if (section == nullptr) return;
    const auto one = section->get<std::string>("url");
    texts_ = section->get<Texts>("urls").value_or(one ? Texts{*one} : Texts());
    for (const std::string& text : texts_) urls_.push_back(*parse_url(text));  // the readers accepted them
  }

  const std::string& name() const { return name_; }
  // The key with the addresses.
  std::string key() const { return section_.has("urls") ? "urls" : "url"; }
  std::string path() const { return name_ + "." + key(); }
  const Node* node() const { return section_.find(key()); }
  const std::vector<Url>& urls() const { return urls_; }
  void copy_to(std::string& first, Texts& others) const {
    if (texts_.empty()) return;
    first = texts_.front();
    others.assign(texts_.begin() + 1, texts_.end());
  }

  void check_addresses(std::string_view example, bool needed) {
    if (needed && !section_.has("url") && !section_.has("urls"))
      load_.problems.add(section_.mark, name_ + ".url is missing: write " + name_ + ": { url: \"" +
                                            std::string(example) + "\" }");
    if (!section_.has("urls")) return;
    if (section_.has("url")) {
      texts_.clear();
      urls_.clear();
      return problem(key(), name_ + ".url is also set: keep only one of them; put all addresses in " +
                                path() + ", or a single address in " + name_ + ".url");
    }
    for (std::size_t i = 1; i < urls_.size(); ++i) compare(i);
  }

  void check_schema() const {
    for (std::size_t i = 0; i < urls_.size(); ++i) {
      const std::string place = urls_.size() > 1 ? "[" + std::to_string(i + 1) + "] " : "";
      for (const auto& [missing, what] :
           {std::pair{urls_[i].path.empty(), "schema"}, std::pair{urls_[i].user.empty(), "user"}}) {
        if (missing)
          problem(key(), place + "the " + what + " is missing: mysql://user:password@host:port/schema");
      }
    }
  }

  // The first line of the file that the key names.
  void take_password(const Node* file, const std::string& file_path) {
    if (file == nullptr || file->invalid || urls_.empty() || !load_.reads_files_of(file_path)) return;
    const auto wrong = [&](const std::string& what) {
      load_.problems.add(file->mark, file_path + ": " + what);
    };
    const auto without = std::ranges::find_if(urls_, [](const Url& url) { return url.user.empty(); });
    if (without != urls_.end())
      return wrong("the URL has no user for this password: write " + without->scheme + "://USER@... in " +
                   path());
    const auto line = read_password_file(*file->get<std::string>());
    if (!line) return wrong(line.error().message);
    for (std::size_t i = 0; i < urls_.size(); ++i) {
      urls_[i].password = *line;
      texts_[i] = format_url(urls_[i]);
    }
  }

 private:
  void problem(const std::string& key, const std::string& what) const {
    load_.problems.add(section_.mark_at(key), name_ + "." + key + ": " + what);
  }

  // All addresses in a list must belong to one service.
  void compare(std::size_t i) const {
    const Url &one = urls_[i], &first = urls_[0];
    const std::string place = "[" + std::to_string(i + 1) + "] has ";
    const auto differs = [&](const std::string& what) {
      problem("urls", place + "a different " + what + " than [1]: all addresses must belong to one service");
    };
    const bool broker = one.scheme.starts_with("amqp");
    if (one.scheme != first.scheme) differs("scheme (" + one.scheme + "://)");
    if (broker ? one.vhost() != first.vhost() : one.path != first.path)
      differs(broker ? "virtual host" : "schema");
    const int usual = !broker ? kMysqlPort : first.scheme == "amqps" ? 5671 : 5672;
    for (std::size_t j = 0; j < i; ++j) {
      if (one.host_port(usual) == urls_[j].host_port(usual))
        problem("urls", place + "the same host and port as [" + std::to_string(j + 1) + "]: remove it");
    }
  }

  std::string name_;
  const Node& section_;
  Load& load_;
  Texts texts_;
  std::vector<Url> urls_;
};

class Completion {
 public:
  explicit Completion(Load& load)
      : load_(load), config_(load.config), broker_("broker", load.root.find("broker"), load.root, load) {
    const std::vector<Entry>& groups = load.root.entries_at("groups");
    for (const auto& [key, group] : groups)
      stores_.emplace_back(group_path(key.text, "store"), group.find("store"), group, load);
    if (groups.empty()) stores_.emplace_back("store", load.root.find("store"), load.root, load);
  }

  void run() {
    broker_.check_addresses("amqp://user:password@host:port/%2f", load_.purpose != ConfigFor::reading);
    for (Service& store : stores_) {
      store.check_addresses("mysql://user:password@host:port/schema", true);
      store.check_schema();
    }
    broker_tls();
    store_tls();
    heartbeat_and_lease();
    node();
    if (load_.reports_warnings()) file_rights();
    take_passwords();
    complete_delays(load_);
    complete_http(load_);
  }

 private:
  bool has(std::string_view path) const { return load_.root.has(path); }
  // Absent, or present and valid: the config's value can be checked.
  bool usable(std::string_view path) const { return !has(path) || load_.root.valid(path); }
  void problem(std::string_view path, const std::string& what) { load_.problem(path, what); }

  void broker_tls() {
    check_pair(load_, "broker");
    if (broker_.urls().empty() || broker_.urls().front().scheme == "amqps") return;
    for (const auto* path : {"broker.ca", "broker.cert", "broker.key", "broker.verify_host"}) {
      if (has(path)) problem(path, "only valid with amqps://, but " + broker_.path() + " uses amqp://");
    }
  }

  void store_tls() {
    check_pair(load_, "store");
    if (!usable("store.tls")) return;
    const bool verify = config_.store.tls == "verify";
    if (verify && !has("store.ca"))
      problem("store.tls", "verify requires store.ca, the CA certificates for the server's certificate");
    for (const auto* path : {"store.ca", "store.cert", "store.key"}) {
      if (!verify && has(path)) problem(path, "only valid with store.tls: verify");
    }
  }

  void heartbeat_and_lease() {
    const auto text = [](Ms ms) { return levels::format_duration(ms); };
    if (!usable("lease")) return;
    Ms& heartbeat = config_.broker.heartbeat;
    if (!has("broker.heartbeat")) {
      heartbeat = std::min<Ms>(heartbeat, std::chrono::floor<std::chrono::seconds>(config_.lease));
    } else if (usable("broker.heartbeat") && heartbeat > config_.lease) {
      // The broker keeps a dead instance's connection until three heartbeats are missed, and publishes of
      // that instance are not repeated before.
      problem("broker.heartbeat", text(heartbeat) + " is longer than the lease (" + text(config_.lease) +
                                      "): it must not be longer");
    }
    if (usable("window") && config_.window < config_.lease)
      problem(has("window") ? "window" : "lease", "the window (" + text(config_.window) +
                                                      ") is shorter than the lease (" + text(config_.lease) +
                                                      "): it must not be shorter");
  }

  void node() {
    if (has("node")) return;
    Problems ignored{""};
    Load other{ignored};
    Node host;
    host.kind = Node::Kind::text;
    host.text = host_name();
    Value value{other, host, "node"};
    if (const auto found = name()(value)) {
      config_.node = *found;
    } else {
      load_.problems.add({}, "node is missing, and the host name is not a valid node name: write node: NAME");
    }
  }

  // Warns about secrets that other users of this machine can read.
  void file_rights() {
    std::vector<std::pair<std::string, const Node*>> places = {{broker_.path(), broker_.node()}};
    for (const Service& store : stores_) places.emplace_back(store.path(), store.node());
    places.emplace_back("broker.management", load_.root.find("broker.management"));
    for (const auto& [path, node] : places) {
      if (node == nullptr || node->invalid || node->is_from_environment()) continue;
      const Texts all = node->get<Texts>().value_or(Texts{node->text_at("")});
      if (std::ranges::all_of(all, [](const auto& url) { return hide_password(url) == url; })) continue;
      warn_readable(*node, load_.problems.file(), path + " contains a password");
      break;  // the same file
    }
    for (const std::string path :
         {"broker.password_file", "store.password_file", "http.token_file", "http.read_token_file",
          "http.tokens_file", "broker.key", "store.key", "http.key"})
      warn_of_secret(load_.root.find(path), path);
    for (const auto& [key, group] : load_.root.entries_at("groups"))
      warn_of_secret(group.find("store.password_file"), group_path(key.text, "store.password_file"));
  }

  void warn_of_secret(const Node* node, const std::string& path) {
    const auto file = node != nullptr ? node->get<std::string>() : std::nullopt;
    if (file) warn_readable(*node, *file, path + " is secret");
  }

  void warn_readable(const Node& node, const std::string& file, const std::string& why) {
    // Several keys may name one file.
    if (warned_of_.insert(file).second) warn_if_readable(load_.problems, node.mark, file, why);
  }

  void take_passwords() {
    const Node& root = load_.root;
    broker_.take_password(root.find("broker.password_file"), "broker.password_file");
    broker_.copy_to(config_.broker.url, config_.broker.other_urls);
    const std::vector<Entry>& groups = root.entries_at("groups");
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      Service& store = stores_[i];
      const Node* file = groups.empty() ? nullptr : groups[i].value.find("store.password_file");
      const std::string path = store.name() + ".password_file";
      // That of a group is only read for it, whichever it is.
      if (groups.empty() || load_.reads_files_of(path))
        store.take_password(file != nullptr ? file : root.find("store.password_file"),
                            file != nullptr ? path : "store.password_file");
      if (!groups.empty() && groups[i].key.text != config_.groups.own) continue;
      store.copy_to(config_.store.url, config_.store.other_urls);
      if (const auto own = file != nullptr ? file->get<std::string>() : std::nullopt)
        config_.store.password_file = *own;
    }
  }

  Load& load_;
  Config& config_;
  Service broker_;
  std::vector<Service> stores_;      // one per group, or `store`
  std::set<std::string> warned_of_;  // files
};

bool same_database(const Service& one, const Service& other) {
  return std::ranges::any_of(one.urls(), [&](const Url& url) {
    return std::ranges::any_of(other.urls(), [&](const Url& its) {
      return url.path == its.path && url.host_port(kMysqlPort) == its.host_port(kMysqlPort);
    });
  });
}

void compare_groups(const Entry& first, const Entry& second, Load& load) {
  const std::string& name = second.key.text;
  const auto problem = [&](std::string_view key, Mark at, const std::string& what) {
    load.problems.add(at, group_path(name, key) + ": " + what);
  };
  const auto prefix = [](const Entry& group) {
    return group.value.get<std::string>("prefix").value_or("rung-" + group.key.text);
  };
  if (prefix(first) == prefix(second))
    problem("prefix", second.value.mark_at("prefix"),
            "same prefix as group " + first.key.text + ": each group needs its own prefix");
  const Service of_first("store", first.value.find("store"), first.value, load);
  const Service of_second("store", second.value.find("store"), second.value, load);
  if (same_database(of_first, of_second))
    problem(of_second.path(), of_second.node()->mark,
            "same host, port and schema as group " + first.key.text + ": each group needs its own database");
  const Texts queues = first.value.texts_at("queues");
  for (const Node& queue : second.value.items_at("queues")) {
    if (std::ranges::find(queues, queue.text) != queues.end())
      problem("queues", queue.mark, first.key.text + " has the same entry: a queue belongs to one group");
  }
}

void choose_group(Load& load) {
  QueueGroups& groups = load.config.groups = groups_of(load);
  load.config.broker.prefix.clear();
  const GroupChoice& choice = load.choice;
  const auto* group = groups.find(choice.name);
  if (group != nullptr) {
    groups.own = group->name;
    load.config.broker.prefix = group->prefix;
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
void resolve_groups(Load& load) {
  const std::vector<Entry>& groups = load.root.entries_at("groups");
  const GroupChoice& choice = load.choice;
  if (groups.empty()) {
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
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) compare_groups(groups[j], groups[i], load);
  }
  choose_group(load);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

QueueGroups groups_of(const Load& load) {
  QueueGroups groups;
  for (const auto& [key, group] : load.root.entries_at("groups"))
    groups.all.push_back(
        {key.text, group.get<std::string>("prefix").value_or("rung-" + key.text), group.texts_at("queues")});
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
  resolve_groups(load);
  Completion(load).run();
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
