// The readers of each type of value, and the walk through the file by the table: it gives each value to its
// key's reader, and reports unknown keys.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/config/load.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/url.h"
#include "src/core/message/identity.h"

namespace rung::confile {
namespace {

// "a, b or c"
std::string join(const Texts& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

bool is_kind(const Value& v, Node::Kind kind, std::string_view wanted, std::size_t most = 0) {
  if (v.node.invalid) return false;
  if (v.node.kind == kind) {
    const bool fits = most == 0 || v.node.items.size() + v.node.entries.size() <= most;
    if (!fits) v.wrong(fmt::format("at most {} are allowed", most));
    return fits;
  }
  const std::string expected = "expected " + std::string(wanted);
  if (kind != Node::Kind::text) {
    v.wrong(expected);
  } else if (v.node.kind == Node::Kind::nothing) {
    v.wrong("missing value: " + expected);
  } else {
    v.wrong(expected + (v.node.kind == Node::Kind::list ? ", found a list" : ", found keys"));
  }
  return false;
}

// Once a file. `what`: of it is secret.
void warn_if_readable(const Value& v, const std::string& file, const std::string& what) {
  constexpr mode_t kOthers = S_IRWXO, kAll = 07777;
  struct stat about {};
  if (!v.load.reports_warnings() || stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode) ||
      (about.st_mode & kOthers) == 0 || !v.load.open_secrets.insert(file).second)
    return;
  v.load.problems.warn(v.node.mark, fmt::format("{} {}, and every user of this machine can read {} (mode "
                                                "{:04o}): chmod 640 {} (or 600)",
                                                v.node.path, what, file, about.st_mode & kAll, file));
}

Reader<Url> one_address(const Texts& schemes) {
  return url(schemes)
      .to([](const std::string& text) { return *parse_url(text); })
      .where([](const Url& url) { return url.scheme != "mysql" || !(url.path.empty() || url.user.empty()); },
             "the user or the schema is missing: mysql://user:password@host:port/schema");
}

}  // namespace

std::nullopt_t Value::wrong(const std::string& what) const {
  load.wrong(node, "", what);
  return std::nullopt;
}

std::string Value::shown() const {
  if (secret) return "the value";
  return node.substituted ? "the value of " + in_quotes(node.written) : in_quotes(node.text);
}

bool Value::is_text(std::string_view wanted) const { return is_kind(*this, Node::Kind::text, wanted); }
bool Value::is_list(std::string_view wanted, std::size_t most) const {
  return is_kind(*this, Node::Kind::list, wanted, most);
}
bool Value::is_map(std::string_view wanted, std::size_t most) const {
  return is_kind(*this, Node::Kind::map, wanted, most);
}

Reader<std::string> text(std::size_t most) {
  return {"text", [=](Value& v) -> std::optional<std::string> {
            if (!v.is_text("a string")) return std::nullopt;
            if (v.node.text.empty()) return v.wrong("must not be empty");
            if (v.node.text.find('\0') != std::string::npos) return v.wrong("must not contain a NUL byte");
            if (v.node.text.size() > most) return v.wrong(fmt::format("at most {} bytes are allowed", most));
            return v.node.text;
          }};
}

Reader<std::string> amqp_name() { return text(255).as("name"); }

Reader<Ms> duration(Ms least, Ms most) {
  return {
      "duration", [=](Value& v) -> std::optional<Ms> {
        if (!v.is_text("a duration, e.g. 30s or 1h30m")) return std::nullopt;
        const auto parsed = levels::parse_duration(v.node.text);
        if (!parsed) {
          if (v.may_quote()) return v.wrong(in_quotes(v.node.text) + ": " + parsed.error());
          // The parser's error would quote a part of it.
          return v.wrong(v.shown() +
                         " is not a duration: a number and a unit (ms, s, m, h, d), e.g. 30s, 5m or 1h30m");
        }
        if (*parsed < least)
          return v.wrong(v.shown() + " is too short: at least " + levels::format_duration(least));
        if (*parsed > most)
          return v.wrong(v.shown() + " is too long: at most " + levels::format_duration(most));
        return *parsed;
      }};
}

Reader<Ms> whole_seconds(Ms least, Ms most) {
  return duration(least, most)
      .where([](Ms value) { return value.count() % 1000 == 0; },
             " is not a whole number of seconds, e.g. 10s")
      .as("whole seconds");
}

Reader<int> integer(int least, int most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return {range, [=](Value& v) -> std::optional<int> {
            const std::string wanted = "an integer from " + range;
            if (!v.is_text(wanted)) return std::nullopt;
            const auto value = number_from<int>(v.node.text);
            if (!value || *value < least || *value > most) return v.wrong(v.shown() + " is not " + wanted);
            return value;
          }};
}

Reader<double> number() {
  return {"number", [](Value& v) -> std::optional<double> {
            constexpr std::string_view kWanted = "a number, e.g. 2 or 1.5";
            if (!v.is_text(kWanted)) return std::nullopt;
            // number_from() takes "inf" and "nan" too, which are no numbers here.
            const std::string& text = v.node.text;
            const bool plain = text.find_first_not_of("0123456789.") == std::string::npos;
            const auto value = plain ? number_from<double>(text) : std::nullopt;
            return value ? value : v.wrong(v.shown() + " is not " + std::string(kWanted));
          }};
}

Reader<double> percent_or_off() {
  return {"off, or 0% to 100%", [](Value& v) -> std::optional<double> {
            const std::string wanted = "off, or a percentage from 0% to 100%, e.g. 20%";
            if (!v.is_text(wanted)) return std::nullopt;
            if (v.node.text == "off") return 0.0;
            std::string_view digits = v.node.text;
            const bool has_sign = digits.ends_with('%');
            if (has_sign) digits.remove_suffix(1);
            const auto percent = has_sign ? number_from<int>(digits) : std::nullopt;
            if (!percent || *percent < 0 || *percent > 100) return v.wrong(v.shown() + " is not " + wanted);
            return *percent / 100.0;
          }};
}

Reader<bool> boolean() { return choice<bool>({{"true", true}, {"false", false}}); }

Reader<std::string> choice(const Texts& words) {
  return {join(words), [words](Value& v) -> std::optional<std::string> {
            if (!v.is_text(join(words))) return std::nullopt;
            if (std::ranges::find(words, v.node.text) != words.end()) return v.node.text;
            return v.wrong(v.shown() + " is not " + join(words) +
                           (v.may_quote() ? did_you_mean(v.node.text, words) : ""));
          }};
}

Reader<std::string> name(std::size_t most) {
  return text(most).where(is_plain, " has invalid characters: use letters, digits and . _ -").as("name");
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Reader<std::string> file() {
  return {"file", [](Value& v) -> std::optional<std::string> {
            auto full = text()(v);
            if (!full) return full;
            if (!full->starts_with('/') && !v.load.folder.empty()) *full = v.load.folder + "/" + *full;
            const auto start =
                v.load.reads_files_of(v.node.path) ? read_start(*full, 1) : Result<std::string>();
            if (start) return full;
            const std::string which =
                v.may_quote() ? in_quotes(*full) : "the file named by " + in_quotes(v.node.written);
            const std::string what = which + " " + start.error().message;
            if (v.load.purpose != ConfigFor::check) return v.wrong(what);
            v.load.warn(v.node, "", what + "; `rung run` will not start");
            return std::nullopt;  // its content cannot be checked
          }};
}

Reader<std::string> secret_file() {
  return {"file", [read = file()](Value& v) {
            const auto path = read(v);
            if (path) warn_if_readable(v, *path, "is secret");
            return path;
          }};
}

Reader<std::string> url(const Texts& schemes) {
  return {"URL", [schemes](Value& v) -> std::optional<std::string> {
            if (!v.is_text("a URL")) return std::nullopt;
            const auto parsed = parse_url(v.node.text);
            if (!parsed) return v.wrong(parsed.error().message);
            if (std::ranges::find(schemes, parsed->scheme) == schemes.end())
              return v.wrong(
                  "the URL must begin with " + join(schemes) +
                  (schemes.size() > 1 ? ", followed by ://" : "://") +
                  (schemes.front() == "mysql" ? ": the databases supported are MySQL and MariaDB" : ""));
            if (!parsed->query.empty())
              return v.wrong("a ?query in the URL is not supported: use the config keys");
            if (v.secret && !v.node.substituted && !parsed->password.empty())
              warn_if_readable(v, v.load.problems.file(), "contains a password");
            return v.node.text;
          }};
}

Reader<Urls> address(const Texts& schemes) {
  return one_address(schemes).to([](Url url) { return Urls{std::move(url)}; });
}

std::string place_of(const Url& url) {
  return url.host_port(url.scheme == "mysql" ? 3306 : url.scheme == "amqps" ? 5671 : 5672);
}

Reader<Urls> addresses(const Texts& schemes) {
  return {"list of URLs", [schemes, one = one_address(schemes)](Value& v) -> std::optional<Urls> {
            if (v.node.kind == Node::Kind::text && !v.node.invalid) {
              const Node whole = v.node;
              v.node.kind = Node::Kind::list;
              for (std::string_view rest = whole.text;;) {
                const auto comma = rest.find(',');
                Node& item = v.node.items.emplace_back(whole);
                item.text = rest.substr(0, comma);
                item.text.erase(0, item.text.find_first_not_of(' '));
                item.text.erase(item.text.find_last_not_of(' ') + 1);
                if (comma == std::string_view::npos) break;
                rest.remove_prefix(comma + 1);
              }
            }
            if (!v.is_list("a list of URLs: [" + schemes[0] + "://HOST, ...]")) return std::nullopt;
            if (v.node.items.empty()) return v.wrong("the list is empty: at least one URL is required");
            Urls before;
            return v.each([&, n = 0](Value& item) mutable -> std::optional<Url> {
              item.node.path += fmt::format("[{}]", ++n);
              auto url = one(item);
              if (!url) return url;
              for (const Url& other : before) {
                if (other.scheme != url->scheme || other.vhost() != url->vhost())
                  return item.wrong(
                      "another scheme, virtual host or schema than in those before: all "
                      "addresses must belong to one service");
                if (place_of(other) == place_of(*url))
                  return item.wrong("the same host and port as one before: remove it");
              }
              before.push_back(*url);
              return url;
            });
          }};
}

Reader<Url> host_port() {
  const auto fits = [](const std::string& text) {
    const auto parsed = parse_url("tcp://" + text);
    return parsed && parsed->port != 0 && parsed->path.empty() && parsed->user.empty() &&
           text.find_first_of("/@?#") == std::string::npos;
  };
  return text()
      .where(fits, " is not host:port, e.g. 127.0.0.1:8025 or [::1]:8025")
      .as("host:port")
      .to([](const std::string& text) { return *parse_url("tcp://" + text); });
}

Reader<Texts> names() {
  return list_of("list of names", "a list of names, * matches any characters: [orders, \"billing.*\"]",
                 amqp_name());
}

namespace {

std::string child_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

// How a value is compared with another config's: its text, a URL without its password, or only the keys.
enum class Secrecy { none, url, hidden };

std::string leaf_text(const Node& value, Secrecy secrecy) {
  if (secrecy == Secrecy::hidden) return "***";
  if (secrecy == Secrecy::url) return hide_password(value.text);
  const auto duration = levels::parse_duration(value.text);
  // 0 is also a number, and in no other form.
  return duration && *duration > Ms{0} ? levels::format_duration(*duration) : value.text;
}

// Equal for values that mean the same: sorted by key, durations in one form.
std::string canonical_text(const Node& value, Secrecy secrecy = Secrecy::none) {
  if (value.kind == Node::Kind::text) return leaf_text(value, secrecy);
  std::string text;
  for (const Node& item : value.items) text += facts_of({canonical_text(item, secrecy)});
  std::map<std::string, std::string> sorted;
  for (const auto& [key, its] : value.entries) sorted[key.text] = canonical_text(its, secrecy);
  for (const auto& [key, its] : sorted) text += facts_of({key, its});
  return text;
}

class Walker {
 public:
  Walker(Load& load, const Table& table) : load_(load), table_(table) {}

  // `path`: as in the table, "queues.*".
  void section(Node& map, const std::string& path) {
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
        const auto before = load_.problems.count();
        const bool ok = entry(key, value, child);
        value.invalid = !ok || load_.problems.count() != before;
        known.push_back({std::move(key), std::move(value)});
      }
    }
    map.entries = std::move(known);
  }

  // A list of items with keys.
  bool list(Node& value, const std::string& path, std::string_view form) {
    if (value.invalid) return false;
    // A top-level section may be empty.
    const bool may_be_empty = !path.ends_with('*');
    if (value.kind == Node::Kind::nothing && may_be_empty) return true;
    if (value.kind != Node::Kind::list || (value.items.empty() && !may_be_empty))
      return wrong(value, "expected a list: write [" + std::string(form) + "]");
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      Node& item = value.items[i];
      item.path = value.path + "[" + std::to_string(i + 1) + "]";
      const auto before = load_.problems.count();
      if (item.kind == Node::Kind::map) {
        section(item, may_be_empty ? path + ".*" : path);
      } else if (!item.invalid) {
        wrong(item, "write " + std::string(form));
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
      section(value, path);
      value.mark = key.mark;
      return true;
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
    Config& config = load_.config;
    for (const std::string name : {"ladders.", "queues.", "tags.", "rules."}) {
      const std::string text = path == name + "*" ? canonical_text(value) : "";
      if (path == name + "*") config.reloadable[value.path] = {text, text, ""};
      if (path.starts_with(name)) return;
    }
    const Key* const row = value.row;
    if (row == nullptr) return;
    const bool url = row->type == "URL" || row->type == "list of URLs";
    const Secrecy secrecy = row->when != When::secret ? Secrecy::none : url ? Secrecy::url : Secrecy::hidden;
    auto& texts = row->when == When::live ? config.reloadable : config.at_start;
    texts[value.path] = {canonical_text(value), canonical_text(value, secrecy), row->fallback};
  }

  // A queue that is called like a key of queues, as "queues.ladder": most likely that key of the queue above.
  std::string misplaced_key(const Node& queue) const {
    const std::string name = queue.path.substr(queue.path.find('.') + 1);
    const Texts keys = child_names("queues.*");
    if (std::ranges::find(keys, name) == keys.end()) return {};
    return "if " + name + " is a key of the queue above it, indent it further";
  }

  bool not_a_section(const Node& value, const std::string& path) {
    if (value.invalid) return false;
    std::string wanted = listed(path);
    wanted = wanted.empty() ? ", one per name" : ": " + wanted;
    if (path == "queues.*" && value.kind == Node::Kind::text) {
      const std::string hint = misplaced_key(value);
      wanted = ": " + (hint.empty() ? "write { ladder: NAME }" : hint);
    }
    return wrong(value, "expected keys" + wanted);
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

// The variables that are not set, once each. `path`: of the node.
void report_unset(Node& node, const std::string& path, Load& load) {
  const std::string what = std::exchange(node.unset, {});
  if (!what.empty() && load.needs(path)) load.problems.add(node.mark, what);
  for (Node& item : node.items) report_unset(item, path, load);
  for (auto& [key, value] : node.entries) report_unset(value, child_path(path, key.text), load);
}

}  // namespace

void walk(Load& load, const Table& table) {
  Node& root = load.root;
  report_unset(root, "", load);
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
