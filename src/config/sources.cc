// Where messages come from besides failed ones: `delays`, from an exchange that Rung declares to one that it
// only publishes to, and `error_queues`, from queues to which a framework publishes failures, both without
// loops.
#include "src/config/load.h"
#include "src/core/base/secret_file.h"

namespace rung::confile {
namespace {

constexpr std::string_view kNoLadder = "none", kDefaultDialect = "plain";
constexpr std::size_t kMostDialectBytes = 1024UL * 1024;

std::string entry_place(std::string_view list, std::size_t i) {
  return std::string(list) + "[" + std::to_string(i + 1) + "]";
}

// Whether the entry names a group, if there are any, or none. Reports it if not.
bool fits_groups(const Node& one, const std::string& path, const std::string& what, Load& load) {
  const QueueGroups& groups = load.config.groups;
  const auto group = one.get<std::string>("group");
  if (groups.empty() ? !group : group && groups.find(*group) != nullptr) return true;
  load.problems.add(one.mark_at("group"),
                    path + ".group: " +
                        (groups.empty() ? "the config has no groups: remove it"
                                        : "set the group that " + what + ": " + groups.names()));
  return false;
}

// Whether an entry that fits is for this process.
bool is_ours(const Node& one, const QueueGroups& groups) {
  return groups.empty() || groups.own.empty() || one.get<std::string>("group") == groups.own;
}

class ErrorQueueBuilder {
 public:
  ErrorQueueBuilder(const RuleBook::Ladders& ladders, Load& load) : ladders_(ladders), load_(load) {}

  ErrorQueuesPtr run() {
    const std::vector<Node>& all = load_.root.items_at("error_queues");
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].invalid) continue;
      const std::string path = entry_place("error_queues", i);
      if (!all[i].has("from")) {
        load_.problems.add(all[i].mark, path + ": from is missing: write " + std::string(kErrorQueueForm));
        continue;
      }
      check_names(all[i], path);
      if (fits_groups(all[i], path, "takes these messages in", load_) && is_ours(all[i], load_.config.groups))
        add(all[i], path);
    }
    check_loops();
    return std::make_shared<const ErrorQueues>(std::move(queues_));
  }

 private:
  void check_names(const Node& one, const std::string& path) {
    const std::string from = *one.get<std::string>("from");
    const auto problem = [&](std::string_view key, const std::string& what) {
      load_.problems.add(one.mark_at(key), path + "." + std::string(key) + ": " + what);
    };
    refuse_own(one, "from", path + ".from", load_);
    if (from.find_first_not_of('*') == std::string::npos) {
      problem("from", "matches every queue: write a part of the error queues' names, like \"*_error\"");
    } else {
      // The config gives rules for the retries of these: they have consumers.
      const bool pattern = from.find('*') != std::string::npos;
      for (const Entry& queue : load_.root.entries_at("queues")) {
        // An error queue may match a pattern of queues: it has no consumer of its own.
        const std::string name = QueuePattern(queue.key.text).only_name().value_or(queue.key.text);
        if (from == name || (pattern && matches_pattern(from, name)))
          problem("from", (pattern ? "matches" : "is") + (" the queue " + in_quotes(queue.key.text)) +
                              " of queues:, whose messages are for its consumer");
      }
    }
    if (!seen_.insert(from).second) problem("from", "duplicate entry");
    if (one.text_at("to").find('*') != std::string::npos)
      problem("to", "must name one queue: only from may be a pattern");
    refuse_own(one, "to", path + ".to", load_);
  }

  void add(const Node& one, const std::string& path) {
    ErrorQueue queue;
    queue.from = *one.get<std::string>("from");
    queue.to = one.text_at("to");
    queue.retries = one.get<std::string>("ladder") != kNoLadder;
    if (queue.retries) queue.ladder = ladder_at(one, "ladder", path + ".ladder", ladders_, load_);
    queue.dialect = dialect_of(one, path);
    if (queue.dialect == nullptr) return;
    if (queue.dialect->name == kDefaultDialect && queue.to.empty() && load_.reports_warnings() &&
        !queue.is_pattern())
      load_.problems.warn(one.mark,
                          path +
                              ": without `to`, a message goes back to the queue that its x-death or "
                              "its header retry-queue names; one that has neither is parked");
    queues_.push_back(std::move(queue));
  }

  // A user's dialect is unknown to commands that do not read its file.
  DialectPtr dialect_of(const Node& one, const std::string& path) {
    const auto name = one.get<std::string>("dialect").value_or(std::string(kDefaultDialect));
    const auto found = load_.config.dialects.find(name);
    if (found != load_.config.dialects.end()) return found->second;
    if (!load_.root.valid("dialects") && !load_.reads_files_of("dialects")) return nullptr;
    Texts known;
    std::string all;
    for (const auto& [its_name, dialect] : load_.config.dialects) {
      known.push_back(its_name);
      all += (all.empty() ? "" : ", ") + its_name;
    }
    load_.problems.add(one.mark_at("dialect"),
                       path + ".dialect: " + (one.is_from_environment() ? "the value" : in_quotes(name)) +
                           " is not a dialect" + did_you_mean(name, known, ": one of " + all));
    return nullptr;
  }

  // A message that goes to an error queue, also to another group's, would be taken in again.
  void check_loops() {
    const std::vector<Node>& all = load_.root.items_at("error_queues");
    std::vector<ErrorQueue> sources;
    for (const Node& one : all) {
      if (auto from = one.get<std::string>("from")) sources.push_back({.from = *std::move(from)});
    }
    const ErrorQueues errors(std::move(sources));
    const auto check = [&](const Node& node, std::string_view key, const std::string& path) {
      const std::string to = node.text_at(key);
      if (!to.empty() && errors.find(to) != nullptr)
        load_.problems.add(node.mark_at(key), path + std::string(key) + ": " + in_quotes(to) +
                                                  " is an error queue: Rung would take its messages in again "
                                                  "and again");
    };
    for (std::size_t i = 0; i < all.size(); ++i) check(all[i], "to", entry_place("error_queues", i) + ".");
    for (const auto& [key, tag] : load_.root.entries_at("tags"))
      check(tag, "queue", "tags." + key.text + ".");
    for (const auto& [key, list] : load_.root.entries_at("rules")) {
      for (const Node& rule : list.items) check(rule, "then.to", "rules." + key.text + ": ");
    }
  }

  const RuleBook::Ladders& ladders_;
  Load& load_;
  std::set<std::string> seen_;
  std::vector<ErrorQueue> queues_;
};

}  // namespace

std::string own_prefix(const Config& config, std::string_view name) {
  const std::string own = config.broker.prefix + ".";
  return own.size() > 1 && name.starts_with(own) ? own : config.groups.own_prefix(name);
}

void refuse_own(const Node& node, std::string_view key, const std::string& path, Load& load) {
  const std::string own = own_prefix(load.config, node.text_at(key));
  if (!own.empty())
    load.problems.add(node.mark_at(key), path + ": names that begin with " + own + " are reserved for Rung");
}

void complete_delays(Load& load) {
  Config& config = load.config;
  const std::vector<Node>& all = load.root.items_at("delays");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Node& one = all[i];
    if (one.invalid) continue;
    const std::string path = entry_place("delays", i);
    const std::string from = one.text_at("from"), to = one.text_at("to");
    const auto before = load.problems.count();
    if (from.empty() || to.empty())
      load.problems.add(one.mark, path + ": " + (from.empty() ? "from" : "to") + " is missing: write " +
                                      std::string(kDelayForm));
    else if (from.starts_with("amq."))
      load.problems.add(one.mark_at("from"),
                        path + ".from: names that begin with amq. are reserved for the broker");
    else if (from == to)
      load.problems.add(one.mark_at("to"), path + ".to: the same as from: messages would loop");
    refuse_own(one, "from", path + ".from", load);
    refuse_own(one, "to", path + ".to", load);
    if (load.problems.count() != before || !fits_groups(one, path, "receives these messages", load)) continue;
    if (!config.delays.emplace(from, to).second)
      load.problems.add(one.mark_at("from"), path + ".from: duplicate entry");
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string to = all[i].text_at("to");
    if (all[i].text_at("from") != to && config.delays.contains(to))
      load.problems.add(all[i].mark_at("to"), entry_place("delays", i) +
                                                  ".to: another entry delays this exchange: write the final "
                                                  "exchange");
  }
  for (const Node& one : all) {
    if (!is_ours(one, config.groups)) config.delays.erase(one.text_at("from"));
  }
  for (const auto& [from, to] : config.delays) config.broker.rabbitmq.delay_exchanges.push_back(from);
  config.broker.consume_delay = true;
}

Config::Dialects read_dialects(Load& load) {
  Config::Dialects all = built_in_dialects();
  std::set<std::string> users;
  // One path, or a list of paths.
  const auto files = load.root.texts_at("dialects");
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::vector<Node>& items = load.root.items_at("dialects");
    const auto problem = [&](const std::string& what) {
      load.problems.add(items.empty() ? load.root.mark_at("dialects") : items[i].mark,
                        "dialects: " + in_quotes(files[i]) + what);
    };
    const auto text = read_start(files[i], kMostDialectBytes + 1);
    if (!text || text->size() > kMostDialectBytes) {
      problem(text ? " is larger than 1 MB" : " " + text.error().message);
      continue;
    }
    Problems own(files[i]);
    const DialectPtr dialect = parse_dialect(*text, own);
    for (ConfigProblem& one : own.take()) load.problems.add_other(std::move(one));
    if (dialect != nullptr && !users.insert(dialect->name).second) {
      problem(": another file has a dialect named " + dialect->name);
    } else if (dialect != nullptr) {
      all.insert_or_assign(dialect->name, dialect);
    }
  }
  return all;
}

ErrorQueuesPtr build_error_queues(const RuleBook::Ladders& ladders, Load& load) {
  return ErrorQueueBuilder(ladders, load).run();
}

}  // namespace rung::confile
