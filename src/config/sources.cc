// Where messages come from besides failed ones: `delays`, from an exchange that Rung declares to one that it
// only publishes to, and `error_queues`, from queues to which a framework publishes failures, both without
// loops; and the dialects of frameworks, which are files: the built-in ones, and the user's.
#include <algorithm>

#include "plugin/rabbitmq/dialects/ready.h"
#include "src/config/load.h"
#include "src/core/message/header_values.h"

namespace rung {
namespace confile {
namespace {

constexpr std::string_view kReadingForm =
    "{ header: NAME }, { property: NAME }, { body: true, json: /POINTER }, { queue_name: true } or "
    "{ routing_key: true }, with json, match and as if needed";

constexpr std::pair<const char*, Reading::From> kSources[] = {{"header", Reading::From::header},
                                                              {"property", Reading::From::property},
                                                              {"body", Reading::From::body},
                                                              {"queue_name", Reading::From::queue_name},
                                                              {"routing_key", Reading::From::routing_key}};

Reader<std::string> removed() {
  return text().where(
      [](const std::string& pattern) {
        return !matches_pattern(pattern, header::kId) && !is_own_header(pattern);
      },
      " matches headers that Rung needs, such as retry-id: name the framework's headers");
}

std::optional<RuleRegex> read_pattern(Value& v) {
  const auto expression = text()(v);
  if (!expression) return std::nullopt;
  auto compiled = compile_regex(*expression);
  if (!compiled) return v.wrong(compiled.error().message);
  return *std::move(compiled);
}

std::optional<Reading> read_reading(Value& v) {
  using enum When;
  using Form = Reading::Form;
  static const Reader<std::string> kYes = choice({"true"});
  static const Table kTable{
      {{"header", &Reading::name, text(), "", start},
       {"property", &Reading::name, choice({kReadProperties.begin(), kReadProperties.end()}), "", start},
       {"body", kYes, "", start},
       {"queue_name", kYes, "", start},
       {"routing_key", kYes, "", start},
       {"json", &Reading::json_pointer,
        text().where([](const std::string& text) { return text.starts_with('/'); },
                     "a pointer begins with /, like /error/message"),
        "", start},
       {"match", &Reading::pattern, own("expression", read_pattern), "", start},
       {"as", &Reading::form,
        choice<Form>({{"iso8601", Form::iso8601},
                      {"epoch_s", Form::epoch_s},
                      {"epoch_ms", Form::epoch_ms},
                      {"nservicebus", Form::nservicebus}}),
        "", start}},
      {}};
  if (!v.is(Node::Kind::map, kReadingForm) || !v.read_by(kTable)) return std::nullopt;
  const bool of_time = v.node.path.starts_with("failed_at"), has_form = v.node.has("as");
  Reading out;
  fill(v.node, out);
  int sources = 0;
  for (const auto& [part, from] : kSources) {
    if (!v.node.has(part)) continue;
    out.from = from;
    ++sources;
  }
  if (sources != 1) return v.wrong("a reading has one source: write " + std::string(kReadingForm));
  if (out.from == Reading::From::body && out.json_pointer.empty())
    return v.wrong("body needs json: a pointer into it, like /error/message");
  if (of_time != has_form)
    return v.wrong(has_form ? "as is only for failed_at"
                            : "as is missing: one of iso8601, epoch_s, epoch_ms, nservicebus");
  return out;
}

const Table& dialect_table() {
  using enum When;
  static const Reader<Texts> kTexts = one_or_list("texts", text());
  static const Reader<Readings> kReadings =
      list_of("readings", "a list: write [" + std::string(kReadingForm) + "]", own("reading", read_reading));
  static const Table table{{{"name", &Dialect::name, text(), "", start},
                            {"about", &Dialect::about, text(), "", start},
                            {"versions", &Dialect::versions, text(), "", start},
                            {"sources", &Dialect::sources, kTexts, "", start},
                            {"notes", &Dialect::notes, kTexts, "", start},
                            {"remove", &Dialect::remove, one_or_list("texts", removed()), "", start},
                            {"queue", &Dialect::queue, kReadings, "", start},
                            {"error_type", &Dialect::error_type, kReadings, "", start},
                            {"error", &Dialect::error, kReadings, "", start},
                            {"stack", &Dialect::stack, kReadings, "", start},
                            {"failed_at", &Dialect::failed_at, kReadings, "", start},
                            {"executor", &Dialect::executor, kReadings, "", start},
                            {"exchange", &Dialect::exchange, kReadings, "", start},
                            {"routing_key", &Dialect::routing_key, kReadings, "", start}},
                           {}};
  return table;
}

constexpr std::string_view kNoLadder = "none", kDefaultDialect = "plain";

// Whether the entry names a group, if there are any, or none. Reports it if not.
bool fits_groups(const Node& one, const std::string& what, Load& load) {
  const QueueGroups& groups = load.config.groups;
  const auto group = one.get<std::string>("group");
  if (groups.empty() ? !group : group && groups.find(*group) != nullptr) return true;
  load.wrong(one, "group",
             groups.empty() ? "the config has no groups: remove it"
                            : "set the group that " + what + ": " + groups.names());
  return false;
}

// Whether an entry that fits is for this process.
bool is_ours(const Node& one, const QueueGroups& groups) {
  return groups.empty() || groups.own.empty() || one.get<std::string>("group") == groups.own;
}

void check_names(const Node& one, Load& load) {
  const std::string from = one.text_at("from");
  refuse_own(one, "from", load);
  if (from.find_first_not_of('*') == std::string::npos) {
    load.wrong(one, "from", "matches every queue: write a part of the error queues' names, like \"*_error\"");
  } else {
    // The config gives rules for the retries of these: they have consumers.
    const bool pattern = from.find('*') != std::string::npos;
    for (const Entry& queue : load.root.entries_at("queues")) {
      // An error queue may match a pattern of queues: it has no consumer of its own.
      const std::string name = QueuePattern(queue.key.text).only_name().value_or(queue.key.text);
      if (from == name || (pattern && matches_pattern(from, name)))
        load.wrong(one, "from",
                   (pattern ? "matches" : "is") + (" the queue " + in_quotes(queue.key.text)) +
                       " of queues:, whose messages are for its consumer");
    }
  }
  if (one.text_at("to").find('*') != std::string::npos)
    load.wrong(one, "to", "must name one queue: only from may be a pattern");
  refuse_own(one, "to", load);
}

// nullptr: there is no such dialect, which is reported; or it is a user's, whose file this command does not
// read.
DialectPtr dialect_of(const Node& one, Load& load) {
  const auto name = one.get<std::string>("dialect").value_or(std::string(kDefaultDialect));
  const auto found = load.config.dialects.find(name);
  if (found != load.config.dialects.end()) return found->second;
  if (load.root.valid("dialects") || load.reads_files_of("dialects"))
    known_name(one, "dialect", "dialect", names_of(load.config.dialects), load);
  return nullptr;
}

void add_error_queue(const Node& one, std::vector<ErrorQueue>& all, Load& load) {
  ErrorQueue queue;
  fill(one, queue);
  queue.retries = one.get<std::string>("ladder") != kNoLadder;
  if (queue.retries) queue.ladder = ladder_at(one, "ladder", load);
  queue.dialect = dialect_of(one, load);
  if (queue.dialect == nullptr) return;
  if (queue.dialect->name == kDefaultDialect && queue.to.empty() && !queue.is_pattern())
    load.warn(one, "",
              "without `to`, a message goes back to the queue that its x-death or its header retry-queue "
              "names; one that has neither is parked");
  all.push_back(std::move(queue));
}

// A message that goes to an error queue, also to another group's, would be taken in again.
void check_loops(Load& load) {
  const std::vector<Node>& all = load.root.items_at("error_queues");
  std::vector<ErrorQueue> sources;
  for (const Node& one : all) {
    if (auto from = one.get<std::string>("from")) sources.push_back({.from = *std::move(from)});
  }
  const ErrorQueues errors(std::move(sources));
  const auto check = [&](const Node& node, std::string_view key) {
    const std::string to = node.text_at(key);
    if (!to.empty() && errors.find(to) != nullptr)
      load.wrong(node, key,
                 in_quotes(to) + " is an error queue: Rung would take its messages in again and again");
  };
  for (const Node& one : all) check(one, "to");
  for (const auto& [key, tag] : load.root.entries_at("tags")) check(tag, "queue");
  for (const auto& [key, list] : load.root.entries_at("rules")) {
    for (const Node& rule : list.items) check(rule, "then.to");
  }
}

}  // namespace

void refuse_own(const Node& node, std::string_view key, Load& load) {
  const std::string name = node.text_at(key), prefix = load.config.broker.prefix + ".";
  const std::string own =
      prefix.size() > 1 && name.starts_with(prefix) ? prefix : load.config.groups.own_prefix(name);
  if (!own.empty()) load.wrong(node, key, "names that begin with " + own + " are reserved for Rung");
}

void complete_delays(Load& load) {
  Config& config = load.config;
  const std::vector<Node>& all = load.root.items_at("delays");
  std::set<std::string> delayed, seen;
  for (const Node& one : all) delayed.insert(one.text_at("from"));
  for (const Node& one : all) {
    if (one.invalid) continue;
    const std::string from = one.text_at("from"), to = one.text_at("to");
    const auto before = load.problems.count();
    if (from.empty() || to.empty())
      load.wrong(one, "",
                 std::string(from.empty() ? "from" : "to") + " is missing: write " + std::string(kDelayForm));
    else if (from.starts_with("amq."))
      load.wrong(one, "from", "names that begin with amq. are reserved for the broker");
    else if (from == to)
      load.wrong(one, "to", "the same as from: messages would loop");
    else if (delayed.contains(to))
      load.wrong(one, "to", "another entry delays this exchange: write the final exchange");
    else if (!seen.insert(from).second)
      load.wrong(one, "from", "duplicate entry");
    refuse_own(one, "from", load);
    refuse_own(one, "to", load);
    const bool fits = fits_groups(one, "receives these messages", load);
    if (fits && load.problems.count() == before && is_ours(one, config.groups))
      config.delays.emplace(from, to);
  }
  for (const auto& [from, to] : config.delays) config.broker.rabbitmq.delay_exchanges.push_back(from);
}

DialectPtr parse_dialect(std::string_view yaml, Problems& problems) {
  const auto before = problems.count();
  auto root = parse_document(yaml, problems);
  if (!root) return nullptr;
  if (root->kind != Node::Kind::map) {
    problems.add(root->mark,
                 "a dialect is a map: name, queue, error_type, error ...; see docs/error-queues.md");
    return nullptr;
  }
  const Mark mark = root->mark;
  Load load{problems};
  load.root = *std::move(root);
  walk(load, dialect_table());
  const Node& node = load.root;
  Dialect dialect;
  fill(node, dialect);
  dialect.text = yaml;
  if (dialect.name.empty() && problems.count() == before)
    problems.add(mark, "name is missing: the name by which error_queues refers to the dialect");
  return problems.count() == before ? std::make_shared<const Dialect>(std::move(dialect)) : nullptr;
}

Config::Dialects read_dialects(Load& load) {
  Config::Dialects all = built_in_dialects();
  std::set<std::string> users;
  // One path, or a list of paths.
  const auto files = load.root.texts_at("dialects");
  const std::vector<Node>& items = load.root.items_at("dialects");
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Node& node = items.empty() ? *load.root.find("dialects") : items[i];
    const auto text = load.text_of(files[i], node);
    if (!text) continue;
    Problems own(files[i]);
    const DialectPtr dialect = parse_dialect(*text, own);
    load.problems.add_all(own);
    if (dialect != nullptr && !users.insert(dialect->name).second) {
      load.wrong(node, "", in_quotes(files[i]) + ": another file has a dialect named " + dialect->name);
    } else if (dialect != nullptr) {
      all.insert_or_assign(dialect->name, dialect);
    }
  }
  return all;
}

ErrorQueuesPtr build_error_queues(Load& load) {
  std::vector<ErrorQueue> queues;
  std::set<std::string> seen;
  for (const Node& one : load.root.items_at("error_queues")) {
    if (one.invalid) continue;
    if (!one.has("from")) {
      load.wrong(one, "", "from is missing: write " + std::string(kErrorQueueForm));
      continue;
    }
    check_names(one, load);
    if (!seen.insert(one.text_at("from")).second) load.wrong(one, "from", "duplicate entry");
    if (fits_groups(one, "takes these messages in", load) && is_ours(one, load.config.groups))
      add_error_queue(one, queues, load);
  }
  check_loops(load);
  return std::make_shared<const ErrorQueues>(std::move(queues));
}

}  // namespace confile

const Config::Dialects& built_in_dialects() {
  static const Config::Dialects all = [] {
    Config::Dialects dialects;
    for (const rabbit::ReadyDialect& ready : rabbit::ready_dialects()) {
      // A test proves that all of them are valid.
      confile::Problems problems{"plugin/rabbitmq/dialects/" + std::string(ready.name) + ".yaml"};
      if (auto dialect = confile::parse_dialect(ready.yaml, problems))
        dialects.emplace(dialect->name, dialect);
    }
    return dialects;
  }();
  return all;
}

}  // namespace rung
