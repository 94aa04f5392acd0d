// Reads dialect files: the built-in ones, and the user's (`dialects` of the config).

#include "plugin/rabbitmq/dialects/ready.h"
#include "src/config/load.h"
#include "src/core/message/header_values.h"
#include "src/core/rules/target_rules.h"

namespace rung {
namespace confile {
namespace {

constexpr std::string_view kReadingForm =
    "{ header: NAME }, { property: NAME }, { body: true, json: /POINTER }, { queue_name: true } or "
    "{ routing_key: true }, with json, match and as if needed";

constexpr std::pair<const char*, Readings Dialect::*> kReadingKeys[] = {
    {"queue", &Dialect::queue},       {"error_type", &Dialect::error_type},  {"error", &Dialect::error},
    {"stack", &Dialect::stack},       {"failed_at", &Dialect::failed_at},    {"executor", &Dialect::executor},
    {"exchange", &Dialect::exchange}, {"routing_key", &Dialect::routing_key}};
constexpr std::pair<const char*, Reading::From> kSources[] = {{"header", Reading::From::header},
                                                              {"property", Reading::From::property},
                                                              {"body", Reading::From::body},
                                                              {"queue_name", Reading::From::queue_name},
                                                              {"routing_key", Reading::From::routing_key}};
constexpr std::pair<const char*, Reading::Form> kForms[] = {{"iso8601", Reading::Form::iso8601},
                                                            {"epoch_s", Reading::Form::epoch_s},
                                                            {"epoch_ms", Reading::Form::epoch_ms},
                                                            {"nservicebus", Reading::Form::nservicebus}};

std::optional<Texts> read_texts(Value& v) { return v.one_or_each(text()); }

std::optional<Texts> read_removed(Value& v) {
  auto patterns = read_texts(v);
  for (const std::string& pattern : patterns.value_or(Texts())) {
    if (matches_pattern(pattern, header::kId) || is_own_header(pattern))
      return v.wrong(in_quotes(pattern) +
                     " matches headers that Rung needs, such as retry-id: name the framework's headers");
  }
  return patterns;
}

std::optional<std::string> read_property(Value& v) {
  const auto known = property_names();
  return choice({known.begin(), known.end()})(v);
}

std::optional<std::string> read_pointer(Value& v) {
  auto pointer = text()(v);
  if (pointer && !pointer->starts_with('/')) return v.wrong("a pointer begins with /, like /error/message");
  return pointer;
}

std::optional<ValuePattern> read_pattern(Value& v) {
  const auto expression = text()(v);
  if (!expression) return std::nullopt;
  auto compiled = ValuePattern::compile(*expression);
  if (!compiled) return v.wrong("not a regular expression: " + compiled.error().message);
  return *std::move(compiled);
}

const Table& dialect_table() {
  static const Table table = [] {
    using enum When;
    const Reader<Texts> texts = own("texts", read_texts);
    const Reader<std::string> yes = choice({"true"});
    Table all;
    all.keys = {{"name", text(), "", start},     {"about", text(), "", start},
                {"versions", text(), "", start}, {"sources", texts, "", start},
                {"notes", texts, "", start},     {"remove", own("texts", read_removed), "", start}};
    Texts forms;
    for (const auto& [word, form] : kForms) forms.emplace_back(word);
    for (const auto& [key, member] : kReadingKeys) {
      all.lists.emplace_back(key, kReadingForm);
      const auto add = [&, before = std::string(key) + ".*."](const char* part, const auto& reader) {
        all.keys.emplace_back(before + part, reader, "", start);
      };
      add("header", text());
      add("property", own("property", read_property));
      for (const auto* part : {"body", "queue_name", "routing_key"}) add(part, yes);
      add("json", own("pointer", read_pointer));
      add("match", own("expression", read_pattern));
      add("as", choice(forms));
    }
    return all;
  }();
  return table;
}

Reading reading_of(const Node& node, const std::string& key, Problems& problems) {
  const auto problem = [&](const std::string& what) { problems.add(node.mark, key + ": " + what); };
  Reading out;
  int sources = 0;
  for (const auto& [part, from] : kSources) {
    if (!node.has(part)) continue;
    out.from = from;
    ++sources;
  }
  out.name = node.text_at(out.from == Reading::From::property ? "property" : "header");
  out.json_pointer = node.text_at("json");
  out.pattern = node.get<ValuePattern>("match");
  for (const auto& [word, form] : kForms) {
    if (node.get<std::string>("as") == word) out.form = form;
  }
  if (node.invalid) return out;
  if (sources != 1)
    problem("a reading has one source: write " + std::string(kReadingForm));
  else if (out.from == Reading::From::body && out.json_pointer.empty())
    problem("body needs json: a pointer into it, like /error/message");
  if (key == "failed_at" && !node.has("as"))
    problem("as is missing: one of iso8601, epoch_s, epoch_ms, nservicebus");
  else if (key != "failed_at" && node.has("as"))
    problem("as is only for failed_at");
  return out;
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
  dialect.name = node.text_at("name");
  dialect.about = node.text_at("about");
  dialect.versions = node.text_at("versions");
  dialect.text = yaml;
  dialect.sources = node.texts_at("sources");
  dialect.notes = node.texts_at("notes");
  dialect.remove = node.texts_at("remove");
  for (const auto& [key, member] : kReadingKeys) {
    for (const Node& item : node.items_at(key)) (dialect.*member).push_back(reading_of(item, key, problems));
  }
  if (dialect.name.empty() && problems.count() == before)
    problems.add(mark, "name is missing: the name by which error_queues refers to the dialect");
  return problems.count() == before ? std::make_shared<const Dialect>(std::move(dialect)) : nullptr;
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
