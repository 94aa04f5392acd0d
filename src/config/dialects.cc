// The dialects of frameworks, which are files: the built-in ones, and the user's.
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
        "", start}}};
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
                            {"routing_key", &Dialect::routing_key, kReadings, "", start}}};
  return table;
}

}  // namespace

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
