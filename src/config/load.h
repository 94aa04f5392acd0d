// One load of the config: the file's nodes, the table that reads them, and what is built from them. Each
// key's reader checks a value and keeps it in its node; fill() copies those of a section to the members that
// the table names, and the builders read what involves several keys.
// Thread: one load, one thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

#include "src/config/config.h"
#include "src/config/document.h"
#include "src/core/base/url.h"
#include "src/core/causes/fingerprint.h"

namespace rung::confile {

struct Table;

struct Load {
  Problems& problems;
  ConfigFor purpose = ConfigFor::sidecar;
  GroupChoice choice = {};
  std::string folder = {};  // of the file; base of relative paths
  // After walk(): only what the table knows, each key once. A section is where its key is.
  Node root = {};
  Config config = {};
  RuleBook::Ladders ladders = {};           // after build_rules() has read them
  std::set<std::string> open_secrets = {};  // the files that a warning says others can read

  // Whether this path's variables must be set: rung attach needs no database password, and a group does not
  // need those of other groups.
  bool needs(std::string_view path) const;
  // Whether files named by keys of this path's section are read.
  bool reads_files_of(std::string_view path) const { return purpose != ConfigFor::health && needs(path); }
  // Adds "PATH: what" where the key of `node` is, or where it should be; "" = the node itself.
  void wrong(const Node& node, std::string_view key, const std::string& what) {
    const std::string path = node.path_of(key);
    problems.add(node.mark_at(key), path.empty() ? what : path + ": " + what);
  }
  void problem(std::string_view path, const std::string& what) { wrong(root, path, what); }
  // Whether warnings are reported: not for commands that only use the database or the broker.
  bool reports_warnings() const { return purpose == ConfigFor::sidecar || purpose == ConfigFor::check; }
  void warn(const Node& node, std::string_view key, const std::string& what) {
    if (reports_warnings()) problems.warn(node.mark_at(key), node.path_of(key) + ": " + what);
  }
  // Of a file that `node` names, at most 1 MB. nullopt: it cannot be read, which is reported.
  std::optional<std::string> text_of(const std::string& file, const Node& node);
};

// One value of the file, for its reader.
struct Value {
  Load& load;
  Node& node;
  bool secret = false;

  // Adds "PATH: what" at the value's position.
  std::nullopt_t wrong(const std::string& what) const;
  // "\"5x\"" if it may be shown, otherwise "the value of \"${X}\"" or "the value".
  std::string shown() const;
  bool may_quote() const { return !secret && !node.substituted; }
  // False: it has another kind, or more than `most` items or entries (0 = any number), which is reported.
  bool is(Node::Kind kind, std::string_view wanted, std::size_t most = 0) const;
  // Reads the keys of this map by a table of its own. False: one has an error, which is reported.
  bool read_by(const Table& table);
  // Each item of a list; those with keys are called by their numbers. nullopt: one has an error.
  template <typename Read>
  auto each(Read read) {
    std::optional<std::vector<typename std::invoke_result_t<Read&, Value&>::value_type>> all(std::in_place);
    bool ok = true;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      Node& item = node.items[i];
      item.path = node.path + (item.kind == Node::Kind::map ? "[" + std::to_string(i + 1) + "]" : "");
      Value one{load, item, secret};
      auto value = read(one);
      ok = ok && value;
      if (ok) all->push_back(*std::move(value));
    }
    if (!ok) all.reset();
    return all;
  }
};

// Checks a value. nullopt: it is invalid, which is reported.
template <typename T>
struct Reader {
  std::string type;  // for people: "1 to 65535"
  std::function<std::optional<T>(Value&)> read;

  std::optional<T> operator()(Value& value) const { return read(value); }
  Reader as(std::string name) const { return {std::move(name), read}; }
  // The same, and `fits` must hold for what is read. `what`: what is wrong otherwise; after the value, if it
  // begins with a space.
  template <typename Fits>
  Reader where(Fits fits, const std::string& what) const {
    return {type, [read = read, fits, what](Value& v) {
              auto value = read(v);
              if (value && !fits(*value)) value = v.wrong((what.starts_with(' ') ? v.shown() : "") + what);
              return value;
            }};
  }
  // The same, with at least one item.
  Reader not_empty(const std::string& what) const {
    return where([](const T& all) { return !all.empty(); }, what);
  }
  // The same, as `convert` makes it of what is read.
  template <typename Convert>
  auto to(Convert convert) const {
    using Other = std::invoke_result_t<Convert&, T>;
    return Reader<Other>{type, [read = read, convert](Value& v) {
                           auto value = read(v);
                           return value ? std::optional<Other>(convert(*std::move(value))) : std::nullopt;
                         }};
  }
};
template <typename T>
Reader<T> own(std::string type, std::optional<T> (*read)(Value&)) {
  return {std::move(type), read};
}
// `wanted`: what it should be, with an example. `most`: items; 0 = any number.
template <typename T>
Reader<std::vector<T>> list_of(std::string type, const std::string& wanted, Reader<T> item,
                               std::size_t most = 0) {
  return {std::move(type), [=](Value& v) -> std::optional<std::vector<T>> {
            if (!v.is(Node::Kind::list, wanted, most)) return std::nullopt;
            return v.each(item);
          }};
}
template <typename T>
Reader<std::vector<T>> one_or_list(std::string type, Reader<T> item) {
  return {std::move(type), [=](Value& v) -> std::optional<std::vector<T>> {
            if (v.node.kind == Node::Kind::list) return v.each(item);
            auto one = item(v);
            return one ? std::optional(std::vector<T>{*std::move(one)}) : std::nullopt;
          }};
}
template <typename Map, typename T>
Reader<Map> map_of(std::string type, const std::string& wanted, const Reader<std::string>& key,
                   Reader<T> value, std::size_t most = 0) {
  return {std::move(type), [=](Value& v) -> std::optional<Map> {
            if (!v.is(Node::Kind::map, wanted, most)) return std::nullopt;
            std::vector<std::pair<std::string, T>> all;
            std::set<std::string> seen;
            bool ok = true;
            for (auto& [its_key, its_value] : v.node.entries) {
              its_key.path = v.node.path;
              its_value.path = v.node.path_of(its_key.text);
              Value as_key{v.load, its_key}, as_value{v.load, its_value, v.secret};
              auto name = key(as_key);
              auto read = name ? value(as_value) : std::nullopt;
              if (read && !seen.insert(*name).second)
                read = as_key.wrong(in_quotes(*name) + " is there twice");
              ok = ok && read;
              if (ok) all.emplace_back(*std::move(name), *std::move(read));
            }
            return ok ? std::optional(Map(all.begin(), all.end())) : std::nullopt;
          }};
}

using Texts = std::vector<std::string>;
inline constexpr std::size_t kLongestName = 64;
template <typename Map>
Texts names_of(const Map& map) {
  Texts all;
  for (const auto& entry : map) all.push_back(entry.first);
  return all;
}

using Levels = std::variant<int, std::vector<Ms>>;               // how many, or their delays
Reader<std::string> text(std::size_t most = std::string::npos);  // 1 to `most` bytes
Reader<std::string> choice(const Texts& words);
// The same; a word stands for a value.
template <typename T>
Reader<T> choice(const std::vector<std::pair<std::string, T>>& meanings) {
  return choice(names_of(meanings)).to([meanings](const std::string& word) {
    return std::ranges::find(meanings, word, &std::pair<std::string, T>::first)->second;
  });
}
// 1 to `most` letters, digits and . _ -
Reader<std::string> name(std::size_t most = kLongestName);
// Has these characters alone.
bool is_plain(std::string_view text);
// Any valid AMQP name: at most 255 bytes.
Reader<std::string> amqp_name();
using Urls = std::vector<Url>;
// Its host and port, or the scheme's usual one.
std::string place_of(const Url& url);

enum class When { start, live, secret };  // read at the start, or by SIGHUP, too; secret: at the start

// A row of a table of keys.
struct Key {
  std::string path;      // "broker.url", "queues.*.success.presumed_after"
  std::string type;      // "duration", "text", "integer", ...
  std::string fallback;  // the default, as in the file; "" = none
  When when;
  std::function<bool(Value&)> read;               // keeps what it has read in the node
  std::type_index part = typeid(void);            // whose member it is; void: nobody's
  std::function<void(void*, const Node&)> put{};  // into such a part

  template <typename T>
  Key(std::string its_path, Reader<T> reader, std::string its_fallback, When at)
      : path(std::move(its_path)),
        type(reader.type),
        fallback(std::move(its_fallback)),
        when(at),
        read([reader](Value& v) {
          auto value = reader(v);
          if (value) v.node.value = *std::move(value);
          return v.node.value.has_value();
        }) {}
  // The same for a member.
  template <typename Part, typename Member, typename T>
  Key(std::string its_path, Member Part::*member, Reader<T> reader, std::string its_fallback, When at)
      : Key(std::move(its_path), reader, std::move(its_fallback), at) {
    part = typeid(Part);
    put = [member](void* to, const Node& node) {
      static_cast<Part*>(to)->*member = std::any_cast<const T&>(node.value);
    };
  }
};

// Sets the members of `part` whose keys are there, without errors, at or below `node` (not in its lists).
void fill(const Node& node, std::type_index type, void* part);
template <typename Part>
void fill(const Node& node, Part& part) {
  fill(node, typeid(Part), &part);
}

struct Table {
  std::vector<Key> keys;
  // Keys whose value is a list of items with keys, and the form of an item.
  std::vector<std::pair<std::string, std::string_view>> lists = {};
  // An unknown key that is longer could be a secret in the wrong place, and is not shown.
  std::size_t longest_shown = std::string::npos;
};
// The table of all keys: a test compares examples/full.yaml and docs/configuration.md, which explain them,
// with it.
const Table& config_table();

// Reads load.root by the table: reports what is wrong.
void walk(Load& load, const Table& table = config_table());

// What an entry of these lists looks like, for errors.
inline constexpr std::string_view kDelayForm = "{ from: EXCHANGE, to: EXCHANGE }";
inline constexpr std::string_view kErrorQueueForm = "{ from: QUEUE, dialect: NAME }";
inline constexpr std::string_view kCauseForm = "{ match: /EXPRESSION/, as: NAME } or { mask: /EXPRESSION/ }";
inline constexpr std::string_view kRuleForm = "{ when: { type: TimeoutError }, then: park }";

// "" if it is not known.
std::string host_name();

// Checks that involve several keys; also reads the files with secrets and builds the rule book.
void complete(Load& load);
// The groups of the file, with default prefixes filled in.
QueueGroups groups_of(const Load& load);
// Checks `delays`, and copies those of this process's group to the config.
void complete_delays(Load& load);
// `queues` of one who may use the HTTP API: a list of patterns.
Reader<QueueScopePtr> queue_scope();
// "reader", "operator" ...
Reader<Role> role();

// The rules from ladders, queues and tags; nullptr on errors.
RuleBookPtr build_rules(Load& load);
// nullptr: there are no `causes`.
CauseRulesPtr build_cause_rules(Load& load);
// nullptr: not a valid dialect; the problems say why.
DialectPtr parse_dialect(std::string_view yaml, Problems& problems);
// The built-in dialects, and those of the config's files, which it reads.
Config::Dialects read_dialects(Load& load);
// All predefined ladders, by name.
const RuleBook::Ladders& ready_ladders();

}  // namespace rung::confile
