#include "src/config/dialects.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "plugin/rabbitmq/dialects/ready.h"
#include "src/core/message/header_names.h"
#include "src/core/rules/target_rules.h"

namespace rung::confile {
namespace {

constexpr std::string_view kReadingForm =
    "write { header: NAME }, { property: NAME }, { body: true, json: /POINTER }, { queue_name: true } or "
    "{ routing_key: true }, with json, match and as if needed";

struct FormWord {
  std::string_view word;
  Reading::Form form;
};
constexpr std::array<FormWord, 4> kForms{{{"iso8601", Reading::Form::iso8601},
                                          {"epoch_s", Reading::Form::epoch_s},
                                          {"epoch_ms", Reading::Form::epoch_ms},
                                          {"nservicebus", Reading::Form::nservicebus}}};

struct ListKey {
  std::string_view name;
  Readings Dialect::*member;
};
constexpr std::array<ListKey, 8> kReadingKeys{{{"queue", &Dialect::queue},
                                               {"error_type", &Dialect::error_type},
                                               {"error", &Dialect::error},
                                               {"stack", &Dialect::stack},
                                               {"failed_at", &Dialect::failed_at},
                                               {"executor", &Dialect::executor},
                                               {"exchange", &Dialect::exchange},
                                               {"routing_key", &Dialect::routing_key}}};

std::string words_of(const auto& names) {
  std::string out;
  for (const std::string_view name : names) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

class DialectParser {
 public:
  explicit DialectParser(Problems& problems) : problems_(problems) {}

  DialectPtr parse(const Node& root) {
    const auto before = problems_.count();
    if (root.kind != Node::Kind::map) {
      problems_.add(root.mark,
                    "a dialect is a map: name, queue, error_type, error ...; see docs/error-queues.md");
      return nullptr;
    }
    for (const auto& [key, value] : root.entries) {
      if (!seen_.insert(key.text).second) {
        problems_.add(key.mark, key.text + ": duplicate key");
      } else {
        entry(key, value);
      }
    }
    if (dialect_.name.empty() && problems_.count() == before)
      problems_.add(root.mark, "name is missing: the name by which error_queues refers to the dialect");
    if (problems_.count() != before) return nullptr;
    return std::make_shared<const Dialect>(std::move(dialect_));
  }

 private:
  void entry(const Node& key, const Node& value) {
    for (const ListKey& list : kReadingKeys) {
      if (key.text == list.name) return readings(key.text, value, dialect_.*list.member);
    }
    if (key.text == "name") return text(key.text, value, dialect_.name);
    if (key.text == "about") return text(key.text, value, dialect_.about);
    if (key.text == "versions") return text(key.text, value, dialect_.versions);
    if (key.text == "sources") return texts(key.text, value, dialect_.sources);
    if (key.text == "notes") return texts(key.text, value, dialect_.notes);
    if (key.text == "remove") return removed_headers(value);
    std::vector<std::string> names{"name", "about", "versions", "sources", "notes", "remove"};
    for (const ListKey& list : kReadingKeys) names.emplace_back(list.name);
    problems_.add(key.mark, "unknown key " + in_quotes(key.text) +
                                did_you_mean(key.text, names, ": known keys: " + words_of(names)));
  }

  void text(const std::string& key, const Node& value, std::string& out) {
    if (value.kind == Node::Kind::text && !value.text.empty()) {
      out = value.text;
    } else if (!value.invalid) {
      problems_.add(value.mark, key + ": expected a text");
    }
  }

  void texts(const std::string& key, const Node& value, std::vector<std::string>& out) {
    const std::vector<Node> one{value};
    for (const Node& item : value.kind == Node::Kind::list ? value.items : one)
      text(key, item, out.emplace_back());
  }

  void removed_headers(const Node& value) {
    texts("remove", value, dialect_.remove);
    for (const std::string& pattern : dialect_.remove) {
      if (matches_pattern(pattern, header::kId) || is_own_header(pattern))
        problems_.add(value.mark,
                      "remove: " + in_quotes(pattern) +
                          " matches headers that Rung needs, such as retry-id: name the framework's "
                          "headers");
    }
  }

  void readings(const std::string& key, const Node& value, Readings& out) {
    if (value.kind != Node::Kind::list) {
      problems_.add(value.mark, key + ": expected a list of readings: " + std::string(kReadingForm));
      return;
    }
    for (const Node& item : value.items) {
      if (item.kind == Node::Kind::map) {
        reading(key, item, out.emplace_back());
      } else if (!item.invalid) {
        problems_.add(item.mark, key + ": " + std::string(kReadingForm));
      }
    }
  }

  void reading(const std::string& key, const Node& map, Reading& out) {
    int sources = 0;
    bool has_json = false;
    std::set<std::string> parts;
    for (const auto& [part, value] : map.entries) {
      const bool is_source = part_of(key, part, value, out);
      if (is_source) ++sources;
      if (part.text == "json") has_json = true;
      if (!parts.insert(part.text).second) problems_.add(part.mark, key + ": duplicate key " + part.text);
    }
    if (sources != 1) {
      problems_.add(map.mark, key + ": a reading has one source: " + std::string(kReadingForm));
    } else if (out.from == Reading::From::body && !has_json) {
      problems_.add(map.mark, key + ": body needs json: a pointer into it, like /error/message");
    }
    const bool is_time = key == "failed_at";
    if (is_time && out.form == Reading::Form::text) {
      problems_.add(map.mark, key + ": as is missing: one of iso8601, epoch_s, epoch_ms, nservicebus");
    } else if (!is_time && out.form != Reading::Form::text) {
      problems_.add(map.mark, key + ": as is only for failed_at");
    }
  }

  // Whether it says where to read.
  bool part_of(const std::string& key, const Node& part, const Node& value, Reading& out) {
    if (part.text == "header") {
      out.from = Reading::From::header;
      text(key + ".header", value, out.name);
      return true;
    }
    if (part.text == "property") {
      out.from = Reading::From::property;
      text(key + ".property", value, out.name);
      const auto names = property_names();
      if (std::ranges::find(names, out.name) == names.end())
        problems_.add(value.mark, key + ": unknown property: one of " + words_of(names));
      return true;
    }
    if (part.text == "body" || part.text == "queue_name" || part.text == "routing_key") {
      out.from = part.text == "body"         ? Reading::From::body
                 : part.text == "queue_name" ? Reading::From::queue_name
                                             : Reading::From::routing_key;
      if (value.text != "true") problems_.add(value.mark, key + ": write " + part.text + ": true");
      return true;
    }
    if (part.text == "json") {
      text(key + ".json", value, out.json_pointer);
      if (!out.json_pointer.starts_with('/'))
        problems_.add(value.mark, key + ".json: a pointer begins with /, like /error/message");
    } else if (part.text == "match") {
      expression(key, value, out);
    } else if (part.text == "as") {
      const auto* form = std::ranges::find(kForms, value.text, &FormWord::word);
      if (form == kForms.end()) {
        problems_.add(value.mark, key + ".as: " + in_quotes(value.text) +
                                      " is not one of: iso8601, epoch_s, epoch_ms, nservicebus");
      } else {
        out.form = form->form;
      }
    } else {
      problems_.add(part.mark,
                    key + ": unknown key " + in_quotes(part.text) + ": " + std::string(kReadingForm));
    }
    return false;
  }

  void expression(const std::string& key, const Node& value, Reading& out) {
    auto compiled = ValuePattern::compile(value.text);
    if (!compiled) {
      problems_.add(value.mark, key + ".match: not a regular expression: " + compiled.error().message);
    } else {
      out.pattern = *std::move(compiled);
    }
  }

  Problems& problems_;
  Dialect dialect_;
  std::set<std::string> seen_;
};

}  // namespace

DialectPtr parse_dialect(std::string_view yaml, Problems& problems) {
  const auto root = parse_document(yaml, problems);
  const auto dialect = root ? DialectParser(problems).parse(*root) : nullptr;
  if (dialect == nullptr) return nullptr;
  auto with_text = std::make_shared<Dialect>(*dialect);
  with_text->text = yaml;
  return with_text;
}

const Config::Dialects& ready_dialects() {
  static const Config::Dialects all = [] {
    Config::Dialects dialects;
    for (const rabbit::ReadyDialect& ready : rabbit::ready_dialects()) {
      // A test proves that all of them are valid.
      Problems problems{"plugin/rabbitmq/dialects/" + std::string(ready.name) + ".yaml"};
      if (auto dialect = parse_dialect(ready.yaml, problems)) dialects.emplace(dialect->name, dialect);
    }
    return dialects;
  }();
  return all;
}

}  // namespace rung::confile
