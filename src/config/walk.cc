// Walks the file by the key table: passes each value to its key's setter, and reports unknown keys.
#include <algorithm>
#include <map>

#include "src/config/draft.h"

namespace rung::confile {
namespace {

// Sections whose entries have names that the user chooses.
constexpr std::string_view kNamedSections[] = {"ladders.*", "queues.*", "tags.*", "groups.*", "rules.*"};

const std::string kErrorQueueForm = "{ from: QUEUE, dialect: NAME }";  // NOLINT: cannot throw

// So that rung-NAME is a valid prefix.
constexpr std::size_t kLongestGroup = 59;

const Key* find_key(std::string_view path) {
  const auto& table = key_table();
  const auto it = std::ranges::find_if(table, [&](const Key& key) { return key.about.path == path; });
  return it != table.end() ? &*it : nullptr;
}

bool is_section(const std::string& path) {
  return std::ranges::any_of(key_table(),
                             [&](const Key& key) { return key.about.path.starts_with(path + "."); });
}

// The keys allowed below `section` ("" = at the top level).
std::vector<std::string> child_names(const std::string& section) {
  const std::string prefix = section.empty() ? "" : section + ".";
  std::vector<std::string> names;
  for (const Key& key : key_table()) {
    if (!key.about.path.starts_with(prefix)) continue;
    const auto rest = key.about.path.substr(prefix.size());
    std::string name(rest.substr(0, rest.find('.')));
    if (name != "*" && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

std::string child_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

// For comparisons: two values that differ have different texts.
std::string text_of(const Node& value) {
  if (value.kind == Node::Kind::text) return value.text;
  std::string text;
  for (const Node& item : value.items) text += "- " + text_of(item) + "\n";
  for (const auto& [key, its] : value.entries) text += key.text + ": " + text_of(its) + "\n";
  return text;
}

class Walker {
 public:
  Walker(Draft& draft, Problems& problems) : draft_(draft), problems_(problems) {}

  // `path` as in the table ("queues.*"), `shown` as in the file ("queues.orders").
  void section(const Node& map, const std::string& path, const std::string& shown) {
    std::map<std::string, int> seen;
    const bool any_name = is_section(child_path(path, "*")) || find_key(child_path(path, "*")) != nullptr;
    for (const auto& [key, value] : map.entries) {
      if (key.kind != Node::Kind::text) {
        if (!key.invalid) problems_.add(key.mark, "a key must be a string");
        continue;
      }
      const std::string child = child_path(path, any_name ? "*" : key.text);
      // A key with a dot would look like a path of the table.
      const bool known = any_name || key.text.find('.') == std::string::npos;
      if (!known || (find_key(child) == nullptr && !is_section(child))) {
        unknown(key, value, path, shown);
        continue;
      }
      const auto [first, inserted] = seen.emplace(key.text, key.mark.line);
      if (inserted) {
        entry(key, value, child, child_path(shown, key.text));
      } else {
        problems_.add(key.mark, child_path(shown, key.text) + ": duplicate key, first in line " +
                                    std::to_string(first->second));
      }
    }
  }

 private:
  void entry(const Node& key, const Node& value, const std::string& path, const std::string& shown) {
    if (std::ranges::find(kNamedSections, path) != std::end(kNamedSections) && !begin_item(key, path, shown))
      return;
    const Key* row = find_key(path);
    if (row != nullptr) draft_.keys_used.insert(path);
    record_text(value, path, shown, row);
    bool ok = true;
    const bool success = path == "queues.*.success" || path == "tags.*.success" || path == "defaults.success";
    if (path == "defaults") {
      draft_.defaults.name = "defaults";
      draft_.defaults.mark = key.mark;
      draft_.current_rules = draft_.queue = &draft_.defaults;
    }
    if (path == "rules.*") {
      ok = rules(value, shown);
    } else if (path == "delays" && (value.kind == Node::Kind::list || value.kind == Node::Kind::map)) {
      ok = items(value, path, draft_.delays, "{ from: EXCHANGE, to: EXCHANGE }");
    } else if (path == "error_queues" && (value.kind == Node::Kind::list || value.kind == Node::Kind::map)) {
      ok = items(value, path, draft_.error_queues, kErrorQueueForm);
    } else if (path == "causes" && (value.kind == Node::Kind::list || value.kind == Node::Kind::map)) {
      ok = items(value, path, draft_.causes, std::string(kCauseForm));
    } else if (value.kind == Node::Kind::map && is_section(path)) {
      if (success) draft_.current_rules->success_mark = key.mark;
      const auto before = problems_.count();
      section(value, path, shown);
      ok = problems_.count() == before;
    } else if (row != nullptr) {
      Value taken{draft_, problems_, value, shown, row->about.secret};
      ok = row->apply(taken);
      if (!row->about.reloadable) draft_.config.at_start[shown] = {text_of(value), row->about.fallback};
    } else if (value.kind == Node::Kind::nothing) {  // a section may be empty
      const std::string hint = path == "queues.*" ? misplaced_key(shown) : "";
      if (!hint.empty() && draft_.reports_warnings())
        problems_.warn(key.mark, shown + ": a queue without keys: " + hint);
    } else {
      ok = false;
      if (!value.invalid) not_a_section(value, path, shown);
    }
    if (path == "ladders.*" && !ok) draft_.ladders.back().invalid = true;
    if (success && !ok) draft_.current_rules->success_broken = true;
    constexpr std::string_view kGate = ".gate.";
    if (const auto at = path.find(kGate); at != std::string::npos && (ok || row != nullptr))
      draft_.queue->gate.present[path.substr(at + kGate.size())] = row != nullptr ? value.mark : key.mark;
    if (path.find('*') == std::string::npos || path.starts_with("groups."))
      draft_.present[shown] = {row != nullptr ? value.mark : key.mark, ok, substituted(value)};
  }

  // For describe_changes() and fingerprint(): a named item as a whole, other keys one by one.
  void record_text(const Node& value, const std::string& path, const std::string& shown, const Key* row) {
    constexpr std::string_view kOwnOfInstance[] = {"node", "http.listen", "groups.*.http.listen"};
    Config& config = draft_.config;
    for (const std::string_view section : {"ladders.*", "queues.*", "tags.*", "rules.*"}) {
      const bool below = path.starts_with(std::string(section.substr(0, section.size() - 1)));
      const std::string name(section.substr(0, section.size() - 2));
      if (path == section) config.reloadable[name][shown.substr(name.size() + 1)] = canonical_text(value);
      if (below) return;
    }
    if (row == nullptr || std::ranges::find(kOwnOfInstance, path) != std::end(kOwnOfInstance)) return;
    const ConfigKey& about = row->about;
    const Secrecy secrecy = !about.secret                                         ? Secrecy::none
                            : about.type == "URL" || about.type == "list of URLs" ? Secrecy::url
                                                                                  : Secrecy::hidden;
    std::string text = canonical_text(value, secrecy);
    if (!about.reloadable) {
      config.not_reloadable[shown] = std::move(text);
      return;
    }
    const auto dot = shown.find('.');
    const bool in_section = dot != std::string::npos;
    config.reloadable[in_section ? shown.substr(0, dot) : "top level"]
                     [in_section ? shown.substr(dot + 1) : shown] = std::move(text);
  }

  static bool substituted(const Node& value) {
    return value.substituted || std::ranges::any_of(value.items, &Node::substituted);
  }

  // A list of items with keys.
  bool rules(const Node& list, const std::string& shown) {
    if (list.invalid) return false;
    if (list.kind != Node::Kind::list || list.items.empty()) {
      problems_.add(list.mark, shown +
                                   ": expected a list of rules: write "
                                   "[{ when: { type: TimeoutError }, then: park }]");
      return false;
    }
    const auto before = problems_.count();
    for (const Node& item : list.items) {
      RuleDraft& draft = draft_.rule_lists.back().rules.emplace_back();
      draft.mark = item.mark;
      const std::string place = shown + "[" + std::to_string(draft_.rule_lists.back().rules.size()) + "]";
      const auto until_now = problems_.count();
      if (item.kind == Node::Kind::map) {
        section(item, "rules.*", place);
      } else if (!item.invalid) {
        problems_.add(item.mark, place + ": write { when: { type: TimeoutError }, then: park }");
      }
      draft.invalid = item.invalid || problems_.count() != until_now;
    }
    return problems_.count() == before;
  }

  // The same, for a list at the top level. `form`: of an item.
  template <typename Item>
  bool items(const Node& list, const std::string& path, std::vector<Item>& drafts, const std::string& form) {
    const auto before = problems_.count();
    if (list.kind == Node::Kind::map && !list.entries.empty())
      problems_.add(list.mark, path + ": expected a list: write [" + form + "]");
    for (const Node& item : list.items) {
      drafts.emplace_back().mark = item.mark;
      const std::string shown = path + "[" + std::to_string(drafts.size()) + "]";
      const auto until_now = problems_.count();
      if (item.kind == Node::Kind::map) {
        section(item, path + ".*", shown);
      } else if (!item.invalid) {
        problems_.add(item.mark, shown + ": write " + form);
      }
      drafts.back().invalid = item.invalid || problems_.count() != until_now;
    }
    return problems_.count() == before;
  }

  // A queue that is called like a key of queues, as "queues.ladder": most likely that key of the queue above.
  static std::string misplaced_key(const std::string& shown) {
    constexpr std::string_view kSection = "queues.";
    const std::string name = shown.starts_with(kSection) ? shown.substr(kSection.size()) : "";
    const std::vector<std::string> keys = child_names("queues.*");
    if (std::ranges::find(keys, name) == keys.end()) return {};
    return "if " + name + " is a key of the queue above it, indent it further";
  }

  void not_a_section(const Node& value, const std::string& path, const std::string& shown) {
    if (path == "queues.*" && value.kind == Node::Kind::text) {
      const std::string hint = misplaced_key(shown);
      problems_.add(value.mark,
                    shown + ": expected keys: " + (hint.empty() ? "write { ladder: NAME }" : hint));
      return;
    }
    if (path == "delays" || path == "error_queues" || path == "causes") {
      const std::string form = path == "delays"   ? "{ from: EXCHANGE, to: EXCHANGE }"
                               : path == "causes" ? std::string(kCauseForm)
                                                  : kErrorQueueForm;
      problems_.add(value.mark, path + ": expected a list: write [" + form + "]");
      return;
    }
    std::string names;
    for (const auto& name : child_names(path)) names += (names.empty() ? "" : ", ") + name;
    problems_.add(value.mark, shown + ": expected keys" + (names.empty() ? ", one per name" : ": " + names));
  }

  // Begins a ladder, a queue, a tag or a group.
  bool begin_item(const Node& key, const std::string& path, const std::string& shown) {
    if (path == "groups.*") {
      Value taken{draft_, problems_, key, shown};
      std::string name;
      if (!taken.name(name, kLongestGroup)) return false;
      GroupDraft& group = draft_.groups.emplace_back();
      group.name = name;
      group.mark = key.mark;
      return true;
    }
    if (path == "rules.*") {
      std::string name;
      if (!Value{draft_, problems_, key, shown}.name(name, 64)) return false;
      RuleListDraft& list = draft_.rule_lists.emplace_back();
      list.name = name;
      list.mark = key.mark;
      return true;
    }
    if (path != "ladders.*") {
      const bool queue = path == "queues.*";
      if (key.text.empty() || key.text.size() > 255) {
        problems_.add(key.mark, queue ? "queues: a queue name has 1 to 255 bytes"
                                      : "tags: a tag (a message's property type) has 1 to 255 bytes");
        return false;
      }
      if (queue) {
        draft_.current_rules = draft_.queue = &draft_.queues.emplace_back();
        draft_.queue->key = QueuePattern(key.text);
        if (draft_.reports_warnings() && key.text.find_first_of("^$\\|") != std::string::npos)
          problems_.warn(key.mark,
                         "queues: " + in_quotes(key.text) +
                             " is no regular expression here: * stands for any characters, ? for one, "
                             "[a-z] for one of these; all others for themselves");
      } else {
        draft_.current_rules = &draft_.tags.emplace_back();
      }
      draft_.current_rules->name = key.text;
      draft_.current_rules->mark = key.mark;
      return true;
    }
    LadderDraft& draft = draft_.ladders.emplace_back();
    draft.mark = key.mark;
    std::string name;
    Value taken{draft_, problems_, key, shown};
    if (!taken.name(name, 64)) draft.invalid = true;
    draft.name = key.text;  // even if invalid, so that queues that use it get no error
    return true;
  }

  void unknown(const Node& key, const Node& value, const std::string& path, const std::string& shown) {
    const std::string where = shown.empty() ? "" : shown + ": ";
    // `{ url: amqp://u:pass,word@h }` parses as a key "word@h" without a value: part of a secret.
    const bool like_a_key = !key.text.empty() && std::ranges::all_of(key.text, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '-' || c == '.';
    });
    const std::string suggestion = closest(key.text, child_names(path));
    const bool among_secrets = path == "broker" || path == "store" || path == "groups.*.store";
    if (!like_a_key || (value.kind == Node::Kind::nothing && (among_secrets || suggestion.empty()))) {
      problems_.add(
          key.mark,
          where + "unknown key without a value (not shown): a string that contains , : or # needs quotes");
      return;
    }
    const std::string hint = path == "queues.*" ? misplaced_key(shown) : "";
    problems_.add(key.mark, where + "unknown key " + in_quotes(key.text) +
                                (hint.empty() ? advice(key.text, suggestion, path) : ": " + hint));
  }

  static std::string advice(const std::string& name, const std::string& suggestion, const std::string& path) {
    if (name.find('.') != std::string::npos && find_key(name) != nullptr) {
      return ": nested keys are not written with a dot, write " + name.substr(0, name.find('.')) + ": { " +
             name.substr(name.find('.') + 1) + ": ... }";
    }
    if (!suggestion.empty()) return ": did you mean " + suggestion + "?";
    // A known name in the wrong section.
    std::string elsewhere;
    for (const Key& key : key_table()) {
      const auto dot = key.about.path.rfind('.');
      const auto last = dot == std::string_view::npos ? key.about.path : key.about.path.substr(dot + 1);
      if (last == name) elsewhere += (elsewhere.empty() ? "" : " or ") + std::string(key.about.path);
    }
    if (is_section(name)) elsewhere = name + " at the top level";
    if (!elsewhere.empty()) return ": did you mean " + elsewhere + "?";
    std::string names;
    for (const auto& known : child_names(path)) names += (names.empty() ? "" : ", ") + known;
    return ": known keys: " + names;
  }

  Draft& draft_;
  Problems& problems_;
};

}  // namespace

bool Draft::reads_files_of(std::string_view path) const {
  if (path.starts_with("groups."))
    return purpose == ConfigFor::check || (purpose != ConfigFor::broker && purpose != ConfigFor::health &&
                                           path.starts_with("groups." + choice.name + "."));
  switch (purpose) {
    case ConfigFor::sidecar:
    case ConfigFor::check:
      return true;
    case ConfigFor::database:
      return path.starts_with("store.");
    case ConfigFor::api:
    case ConfigFor::reading:
      return path.starts_with("store.") || path.starts_with("api.");
    case ConfigFor::broker:
      return path.starts_with("broker.");
    case ConfigFor::health:
      return false;
  }
  return true;
}

Draft walk(const Node& root, std::string folder, Problems& problems, ConfigFor purpose, GroupChoice choice) {
  Draft draft;
  draft.choice = std::move(choice);
  draft.folder = std::move(folder);
  draft.purpose = purpose;
  if (root.kind == Node::Kind::map || root.kind == Node::Kind::nothing) {
    Walker(draft, problems).section(root, "", "");
  } else {
    problems.add(root.mark, "the file has no keys: start with broker: and store:, see examples/full.yaml");
  }
  return draft;
}

}  // namespace rung::confile
