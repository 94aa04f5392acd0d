// Walks the file by the table: gives each value to its key's reader, and reports unknown keys.
#include <algorithm>
#include <map>

#include "src/config/load.h"

namespace rung::confile {
namespace {

std::string child_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

class Walker {
 public:
  Walker(Load& load, const Table& table) : load_(load), table_(table) {}

  // `path` as in the table ("queues.*"), `shown` as in the file ("queues.orders").
  void section(Node& map, const std::string& path, const std::string& shown) {
    std::map<std::string, int> seen;
    std::vector<Entry> known;
    const bool any_name = is_known(child_path(path, "*"));
    for (auto& [key, value] : map.entries) {
      const std::string child = child_path(path, any_name ? "*" : key.text);
      const std::string name = child_path(shown, key.text);
      if (key.kind != Node::Kind::text) {
        if (!key.invalid) load_.problems.add(key.mark, "a key must be a string");
      } else if (!is_known(child) || (!any_name && key.text.find('.') != std::string::npos)) {
        unknown(key, value, path, shown);  // a key with a dot would look like a path of the table
      } else if (const auto [first, is_new] = seen.emplace(key.text, key.mark.line); !is_new) {
        load_.problems.add(key.mark,
                           name + ": duplicate key, first in line " + std::to_string(first->second));
      } else if (is_name(key, child, name)) {
        const auto before = load_.problems.count();
        const bool ok = entry(key, value, child, name);
        value.invalid = !ok || load_.problems.count() != before;
        known.push_back({std::move(key), std::move(value)});
      }
    }
    map.entries = std::move(known);
  }

  // A list of items with keys.
  bool list(Node& value, const std::string& path, const std::string& shown, std::string_view form) {
    if (value.invalid) return false;
    // A top-level section may be empty.
    const bool may_be_empty = !path.ends_with('*');
    if (value.kind == Node::Kind::nothing && may_be_empty) return true;
    if (value.kind != Node::Kind::list || (value.items.empty() && !may_be_empty))
      return wrong(value.mark, shown + ": expected a list: write [" + std::string(form) + "]");
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      Node& item = value.items[i];
      const std::string place = shown + "[" + std::to_string(i + 1) + "]";
      const auto before = load_.problems.count();
      if (item.kind == Node::Kind::map) {
        section(item, may_be_empty ? path + ".*" : path, place);
      } else if (!item.invalid) {
        wrong(item.mark, place + ": write " + std::string(form));
      }
      item.invalid = item.invalid || load_.problems.count() != before;
    }
    return true;
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
  std::string listed(const std::string& section) const {
    std::string out;
    for (const std::string& name : child_names(section)) out += (out.empty() ? "" : ", ") + name;
    return out;
  }

  bool wrong(Mark at, std::string what) {
    load_.problems.add(at, std::move(what));
    return false;
  }

  // Whether the value is right.
  bool entry(const Node& key, Node& value, const std::string& path, const std::string& shown) {
    const Key* const row = find_key(path);
    if (row != nullptr) load_.keys_used.insert(path);
    record_text(value, path, shown, row);
    for (const auto& [of, form] : table_.lists) {
      if (of == path) return list(value, path, shown, form);
    }
    if (value.kind == Node::Kind::map && is_section(path)) {
      section(value, path, shown);
      value.mark = key.mark;
      return true;
    }
    if (row != nullptr) {
      Value taken{load_, value, shown, row->when == When::secret};
      return row->read(taken);
    }
    if (value.kind != Node::Kind::nothing) return not_a_section(value, path, shown);
    // A section may be empty.
    const std::string hint = path == "queues.*" ? misplaced_key(shown) : "";
    if (!hint.empty() && load_.reports_warnings())
      load_.problems.warn(key.mark, shown + ": a queue without keys: " + hint);
    return true;
  }

  // For comparisons: a named item as a whole, other keys one by one.
  void record_text(const Node& value, const std::string& path, const std::string& shown, const Key* row) {
    Config& config = load_.config;
    for (const std::string name : {"ladders", "queues", "tags", "rules"}) {
      if (path == name + ".*") config.reloadable[name][shown.substr(name.size() + 1)] = canonical_text(value);
      if (path.starts_with(name + ".")) return;
    }
    if (row == nullptr) return;
    if (row->when != When::live) {
      const bool url = row->type == "URL" || row->type == "list of URLs";
      const Secrecy secrecy = row->when == When::start ? Secrecy::none : url ? Secrecy::url : Secrecy::hidden;
      config.at_start[shown] = {canonical_text(value), canonical_text(value, secrecy), row->fallback};
      return;
    }
    const auto dot = shown.find('.');
    const bool in_section = dot != std::string::npos;
    config.reloadable[in_section ? shown.substr(0, dot) : "top level"]
                     [in_section ? shown.substr(dot + 1) : shown] = canonical_text(value);
  }

  // A queue that is called like a key of queues, as "queues.ladder": most likely that key of the queue above.
  std::string misplaced_key(const std::string& shown) const {
    const std::string name = shown.substr(shown.find('.') + 1);
    const Texts keys = child_names("queues.*");
    if (std::ranges::find(keys, name) == keys.end()) return {};
    return "if " + name + " is a key of the queue above it, indent it further";
  }

  bool not_a_section(const Node& value, const std::string& path, const std::string& shown) {
    if (value.invalid) return false;
    std::string wanted = listed(path);
    wanted = wanted.empty() ? ", one per name" : ": " + wanted;
    if (path == "queues.*" && value.kind == Node::Kind::text) {
      const std::string hint = misplaced_key(shown);
      wanted = ": " + (hint.empty() ? "write { ladder: NAME }" : hint);
    }
    return wrong(value.mark, shown + ": expected keys" + wanted);
  }

  // Whether an item of the user's is called right: a ladder, a queue, a tag, a group.
  bool is_name(Node& key, const std::string& path, const std::string& shown) {
    constexpr std::size_t kLongestGroup = 59;  // so that rung-NAME is a valid prefix
    if (!path.ends_with(".*")) return true;
    const bool queue = path == "queues.*";
    if (!queue && path != "tags.*") {
      Value taken{load_, key, shown};
      return (path == "groups.*" ? name(kLongestGroup) : name())(taken).has_value();
    }
    if (key.text.empty() || key.text.size() > 255)
      return wrong(key.mark, queue ? "queues: a queue name has 1 to 255 bytes"
                                   : "tags: a tag (a message's property type) has 1 to 255 bytes");
    if (queue && load_.reports_warnings() && key.text.find_first_of("^$\\|") != std::string::npos)
      load_.problems.warn(key.mark,
                          "queues: " + in_quotes(key.text) +
                              " is no regular expression here: * stands for any characters, ? for one, "
                              "[a-z] for one of these; all others for themselves");
    return true;
  }

  void unknown(const Node& key, const Node& value, const std::string& path, const std::string& shown) {
    const std::string where = shown.empty() ? "" : shown + ": ";
    // `{ url: amqp://u:pass,word@h }` parses as a key "word@h" without a value: part of a secret.
    const bool like_a_key = !key.text.empty() && std::ranges::all_of(key.text, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '-' || c == '.';
    });
    const std::string near = closest(key.text, child_names(path));
    const bool among_secrets = path == "broker" || path == "store" || path == "groups.*.store";
    if (!like_a_key || (value.kind == Node::Kind::nothing && (among_secrets || near.empty()))) {
      wrong(key.mark, where +
                          "unknown key without a value (not shown): a string that contains , : or # needs "
                          "quotes");
      return;
    }
    if (key.text.size() > table_.longest_shown) {
      wrong(key.mark, where + "unknown key (not shown: it might be a secret): known keys: " + listed(path));
      return;
    }
    const std::string hint = path == "queues.*" ? misplaced_key(shown) : "";
    wrong(key.mark, where + "unknown key " + in_quotes(key.text) + ": " +
                        (hint.empty() ? advice(key.text, near, path) : hint));
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

bool Load::reads_files_of(std::string_view path) const {
  const bool of_group = path.starts_with("groups.");
  if (of_group && purpose != ConfigFor::check && !path.starts_with("groups." + choice.name + "."))
    return false;
  switch (purpose) {
    case ConfigFor::sidecar:
    case ConfigFor::check:
      return true;
    case ConfigFor::database:
      return of_group || path.starts_with("store.");
    case ConfigFor::api:
    case ConfigFor::reading:
      return of_group || path.starts_with("store.") || path.starts_with("api.");
    case ConfigFor::broker:
      return path.starts_with("broker.");
    case ConfigFor::health:
      return false;
  }
  return true;
}

void walk(Load& load, const Table& table, const std::string& shown) {
  Node& root = load.root;
  if (root.kind == Node::Kind::map || root.kind == Node::Kind::nothing) {
    Walker(load, table).section(root, "", shown);
  } else {
    load.problems.add(root.mark,
                      "the file has no keys: start with broker: and store:, see examples/full.yaml");
  }
  root.mark = {};
}

}  // namespace rung::confile
