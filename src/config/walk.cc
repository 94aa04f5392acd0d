// The walk through the file by the table: it gives each value to its key's reader, and reports unknown keys.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/config/load.h"
#include "src/core/base/url.h"

namespace rung::confile {
namespace {

std::string child_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

// A text of a value, for comparisons and without secrets.
using Leaf = std::string (*)(std::string_view);
std::string in_one_form(std::string_view text) {
  const auto duration = levels::parse_duration(text);
  // 0 is also a number, and in no other form.
  return duration && *duration > Ms{0} ? levels::format_duration(*duration) : std::string(text);
}
std::string hidden(std::string_view) { return "***"; }

// Equal for values that mean the same: sorted by key, durations in one form.
std::string canonical_text(const Node& value, Leaf leaf = in_one_form) {
  if (value.kind == Node::Kind::text) return leaf(value.text);
  std::string text;
  for (const Node& item : value.items) text += facts_of({canonical_text(item, leaf)});
  std::map<std::string, std::string> sorted;
  for (const auto& [key, its] : value.entries) sorted[key.text] = canonical_text(its, leaf);
  for (const auto& [key, its] : sorted) text += facts_of({key, its});
  return text;
}

class Walker {
 public:
  Walker(Load& load, const Table& table) : load_(load), table_(table) {}

  // `path`: as in the table, "queues.*". False: there is an error, which is reported.
  bool section(Node& map, const std::string& path) {
    const auto before = load_.problems.count();
    std::map<std::string, int> seen;
    std::vector<Entry> known;
    const bool any_name = is_known(child_path(path, "*"));
    for (auto& [key, value] : map.entries) {
      const std::string child = child_path(path, any_name ? "*" : key.text);
      key.path = value.path = map.path_of(key.text);
      if (key.kind != Node::Kind::text) {
        if (!key.invalid) load_.problems.add(key.mark, "a key must be a string");
      } else if (!is_known(child) || (!any_name && key.text.find('.') != std::string::npos)) {
        unknown(key, value, path, map);  // a key with a dot would look like a path of the table
      } else if (const auto [first, is_new] = seen.emplace(key.text, key.mark.line); !is_new) {
        wrong(key, "duplicate key, first in line " + std::to_string(first->second));
      } else if (is_name(key, child)) {
        value.invalid = !entry(key, value, child);
        known.push_back({std::move(key), std::move(value)});
      }
    }
    map.entries = std::move(known);
    return load_.problems.count() == before;
  }

  // A list of items with keys.
  bool list(Node& value, const std::string& path, std::string_view form) {
    // A top-level section may be empty.
    const bool may_be_empty = !path.ends_with('*');
    const std::string wanted = "a list: write [" + std::string(form) + "]";
    if (value.kind == Node::Kind::nothing && may_be_empty) return true;
    if (!Value{load_, value}.is(Node::Kind::list, wanted)) return false;
    if (value.items.empty() && !may_be_empty) return wrong(value, "expected " + wanted);
    bool ok = true;
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      Node& item = value.items[i];
      item.path = value.path + "[" + std::to_string(i + 1) + "]";
      const bool is_map = Value{load_, item}.is(Node::Kind::map, "keys: write " + std::string(form));
      item.invalid = !is_map || !section(item, may_be_empty ? path + ".*" : path);
      ok = ok && !item.invalid;
    }
    return ok;
  }

 private:
  const Key* find_key(std::string_view path) const {
    const auto it = std::ranges::find_if(table_.keys, [&](const Key& key) { return key.path == path; });
    return it != table_.keys.end() ? &*it : nullptr;
  }
  bool is_section(const std::string& path) const {
    return std::ranges::any_of(table_.keys, [&](const Key& key) { return key.path.starts_with(path + "."); });
  }
  bool is_known(const std::string& path) const { return find_key(path) != nullptr || is_section(path); }

  // The keys allowed below `section` ("" = at the top level).
  Texts child_names(const std::string& section) const {
    const std::string prefix = section.empty() ? "" : section + ".";
    Texts all;
    for (const Key& key : table_.keys) {
      if (!key.path.starts_with(prefix)) continue;
      const std::string rest = key.path.substr(prefix.size());
      std::string name = rest.substr(0, rest.find('.'));
      if (name != "*" && std::ranges::find(all, name) == all.end()) all.push_back(std::move(name));
    }
    return all;
  }
  std::string listed(const std::string& section) const { return joined(child_names(section)); }

  bool wrong(const Node& node, const std::string& what) {
    load_.wrong(node, "", what);
    return false;
  }

  // Whether the value is right.
  bool entry(const Node& key, Node& value, const std::string& path) {
    value.row = find_key(path);
    record_text(value, path);
    for (const auto& [of, form] : table_.lists) {
      if (of == path) return list(value, path, form);
    }
    if (value.kind == Node::Kind::map && is_section(path)) {
      value.mark = key.mark;
      return section(value, path);
    }
    if (value.row != nullptr) {
      Value taken{load_, value, value.row->when == When::secret};
      return value.row->read(taken);
    }
    if (value.kind != Node::Kind::nothing) return not_a_section(value, path);
    // A section may be empty.
    const std::string hint = path == "queues.*" ? misplaced_key(key) : "";
    if (!hint.empty()) load_.warn(key, "", "a queue without keys: " + hint);
    return true;
  }

  // For comparisons: a named item as a whole, other keys one by one.
  void record_text(const Node& value, const std::string& path) {
    if (&table_ != &config_table()) return;
    Config& config = load_.config;
    for (const std::string name : {"ladders.", "queues.", "tags.", "rules."}) {
      const std::string text = path == name + "*" ? canonical_text(value) : "";
      if (path == name + "*") config.reloadable[value.path] = {text, text, ""};
      if (path.starts_with(name)) return;
    }
    const Key* const row = value.row;
    if (row == nullptr) return;
    const bool url = row->type == "URL" || row->type == "list of URLs";
    const Leaf leaf = row->when != When::secret ? in_one_form : url ? hide_password : hidden;
    auto& texts = row->when == When::live ? config.reloadable : config.at_start;
    texts[value.path] = {canonical_text(value), canonical_text(value, leaf), row->fallback};
  }

  // A queue that is called like a key of queues, as "queues.ladder": most likely that key of the queue above.
  std::string misplaced_key(const Node& queue) const {
    const std::string name = queue.path.substr(queue.path.find('.') + 1);
    const Texts keys = child_names("queues.*");
    if (std::ranges::find(keys, name) == keys.end()) return {};
    return "if " + name + " is a key of the queue above it, indent it further";
  }

  bool not_a_section(Node& value, const std::string& path) {
    std::string wanted = listed(path);
    wanted = wanted.empty() ? ", one per name" : ": " + wanted;
    if (path == "queues.*" && value.kind == Node::Kind::text) {
      const std::string hint = misplaced_key(value);
      wanted = ": " + (hint.empty() ? "write { ladder: NAME }" : hint);
    }
    return Value{load_, value}.is(Node::Kind::map, "keys" + wanted);
  }

  // Whether an item of the user's is called right: a ladder, a queue, a tag, a group.
  bool is_name(Node& key, const std::string& path) {
    constexpr std::size_t kLongestGroup = 59;  // so that rung-NAME is a valid prefix
    if (!path.ends_with(".*")) return true;
    const bool queue = path == "queues.*";
    const auto reader = queue || path == "tags.*" ? amqp_name()
                        : path == "groups.*"      ? name(kLongestGroup)
                                                  : name();
    Value taken{load_, key};
    if (!reader(taken)) return false;
    if (queue && load_.reports_warnings() && key.text.find_first_of("^$\\|") != std::string::npos)
      load_.problems.warn(key.mark,
                          "queues: " + in_quotes(key.text) +
                              " is no regular expression here: * stands for any characters, ? for one, "
                              "[a-z] for one of these; all others for themselves");
    return true;
  }

  // `path`: of the section `map`.
  void unknown(const Node& key, const Node& value, const std::string& path, const Node& map) {
    const auto report = [&](const std::string& what) {
      load_.problems.add(key.mark, (map.path.empty() ? "" : map.path + ": ") + "unknown key " + what);
    };
    // `{ url: amqp://u:pass,word@h }` parses as a key "word@h" without a value: part of a secret.
    const bool like_a_key = !key.text.empty() && is_plain(key.text);
    const std::string near = closest(key.text, child_names(path));
    const bool among_secrets = path == "broker" || path == "store" || path == "groups.*.store";
    if (!like_a_key || (value.kind == Node::Kind::nothing && (among_secrets || near.empty())))
      return report("without a value (not shown): a string that contains , : or # needs quotes");
    if (key.text.size() > table_.longest_shown)
      return report("(not shown: it might be a secret): known keys: " + listed(path));
    const std::string hint = path == "queues.*" ? misplaced_key(map) : "";
    report(in_quotes(key.text) + ": " + (hint.empty() ? advice(key.text, near, path) : hint));
  }

  std::string advice(const std::string& name, const std::string& near, const std::string& path) const {
    const auto dot = name.find('.');
    if (dot != std::string::npos && find_key(name) != nullptr)
      return "nested keys are not written with a dot, write " + name.substr(0, dot) + ": { " +
             name.substr(dot + 1) + ": ... }";
    if (!near.empty()) return "did you mean " + near + "?";
    // A known name in the wrong section.
    std::string elsewhere;
    for (const Key& key : table_.keys) {
      if (key.path.substr(key.path.rfind('.') + 1) == name)
        elsewhere += (elsewhere.empty() ? "" : " or ") + key.path;
    }
    if (is_section(name)) elsewhere = name + " at the top level";
    return elsewhere.empty() ? "known keys: " + listed(path) : "did you mean " + elsewhere + "?";
  }

  Load& load_;
  const Table& table_;
};

}  // namespace

std::nullopt_t Value::wrong(const std::string& what) const {
  load.wrong(node, "", what);
  return std::nullopt;
}

std::string Value::shown() const {
  if (secret) return "the value";
  return node.substituted ? "the value of " + in_quotes(node.written) : in_quotes(node.text);
}

bool Value::is(Node::Kind kind, std::string_view wanted, std::size_t most) const {
  const std::string unset = std::exchange(node.unset, {}), expected = "expected " + std::string(wanted);
  if (!unset.empty() && load.needs(node.path)) load.problems.add(node.mark, unset);
  if (node.invalid) return false;
  if (node.kind == kind) {
    if (most == 0 || node.items.size() + node.entries.size() <= most) return true;
    Node& at = node.items.empty() ? node : node.items[most];
    at.path = node.path;
    load.wrong(at, "", fmt::format("at most {} are allowed", most));
    return false;
  }
  if (kind != Node::Kind::text) {
    wrong(expected);
  } else if (node.kind == Node::Kind::nothing) {
    wrong("missing value: " + expected);
  } else {
    wrong(expected + (node.kind == Node::Kind::list ? ", found a list" : ", found keys"));
  }
  return false;
}

bool Value::read_by(const Table& table) {
  return Walker(load, table).section(node, "") &&
         std::ranges::none_of(node.entries, [](const Entry& one) { return one.value.invalid; });
}

void walk(Load& load, const Table& table) {
  Node& root = load.root;
  if (root.kind == Node::Kind::map || root.kind == Node::Kind::nothing) {
    Walker(load, table).section(root, "");
  } else {
    load.problems.add(root.mark,
                      "the file has no keys: start with broker: and store:, see examples/full.yaml");
  }
  root.mark = {};
}

void fill(const Node& node, std::type_index type, void* part) {
  if (node.row != nullptr && node.row->part == type && !node.invalid && node.value.has_value())
    node.row->put(part, node);
  for (const Entry& entry : node.entries) fill(entry.value, type, part);
}

}  // namespace rung::confile
