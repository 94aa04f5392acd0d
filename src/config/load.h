// One load of the config: the file's nodes, the table that reads them, and what is built from them. Each
// key's reader checks a value and keeps it in its node; the builders then read the nodes of their sections.
// Thread: one load, one thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "src/config/config.h"
#include "src/config/document.h"
#include "src/core/causes/fingerprint.h"

namespace rung::confile {

struct Load {
  Problems& problems;
  ConfigFor purpose = ConfigFor::sidecar;
  GroupChoice choice = {};
  std::string folder = {};  // of the file; base of relative paths
  // After walk(): only what the table knows, each key once. A section is where its key is.
  Node root = {};
  Config config = {};
  std::set<std::string> keys_used = {};  // by the table's paths, "queues.*.ladder"

  // Whether files named by keys of this path's section are read.
  bool reads_files_of(std::string_view path) const;
  // Whether warnings are reported: not for commands that only use the database or the broker.
  bool reports_warnings() const { return purpose == ConfigFor::sidecar || purpose == ConfigFor::check; }
  // Adds "PATH: what" where the key is.
  void problem(std::string_view path, const std::string& what) {
    problems.add(root.mark_at(path), std::string(path) + ": " + what);
  }
};

// One value of the file, for its reader.
struct Value {
  Load& load;
  Node& node;
  std::string path;  // as in the file: "queues.orders.ladder"
  bool secret = false;

  // Adds "PATH: what" at the value's position.
  std::nullopt_t wrong(const std::string& what) const { return wrong_at(node.mark, what); }
  std::nullopt_t wrong_at(Mark at, const std::string& what) const;
  // "\"5x\"" if it may be shown, otherwise "the value of \"${X}\"" or "the value".
  std::string shown() const;
  bool may_quote() const { return !secret && !node.substituted; }
  // False: it has another kind, which is reported.
  bool is_text(std::string_view wanted) const;
  bool is_list(std::string_view wanted) const;
  bool is_map(std::string_view wanted) const;
  // Each item of a list. nullopt: one has an error.
  template <typename Read>
  auto each(Read read) {
    std::optional<std::vector<typename std::invoke_result_t<Read&, Value&>::value_type>> all(std::in_place);
    bool ok = true;
    for (Node& item : node.items) {
      Value one{load, item, path, secret};
      auto value = read(one);
      ok = ok && value;
      if (ok) all->push_back(*std::move(value));
    }
    if (!ok) all.reset();
    return all;
  }
  // Each key and value of a map. nullopt: one has an error.
  template <typename ReadKey, typename ReadValue>
  auto each_entry(ReadKey read_key, ReadValue read_value) {
    using Of = typename std::invoke_result_t<ReadValue&, Value&>::value_type;
    std::optional<std::vector<std::pair<std::string, Of>>> all(std::in_place);
    std::set<std::string> seen;
    bool ok = true;
    for (auto& [key, its] : node.entries) {
      Value as_key{load, key, path}, as_value{load, its, path + "." + key.text, secret};
      auto name = read_key(as_key);
      auto value = name ? read_value(as_value) : std::nullopt;
      if (value && !seen.insert(*name).second) {
        wrong_at(key.mark, in_quotes(*name) + " is there twice");
        ok = false;
      }
      ok = ok && value;
      if (ok) all->emplace_back(*std::move(name), *std::move(value));
    }
    if (!ok) all.reset();
    return all;
  }
  // Each item of a list, or the one value.
  template <typename Read>
  auto one_or_each(Read read) {
    if (node.kind == Node::Kind::list) return each(read);
    auto value = read(*this);
    return value ? std::optional(std::vector{*std::move(value)}) : std::nullopt;
  }
};

// Checks a value. nullopt: it is invalid, which is reported.
template <typename T>
struct Reader {
  std::string type;  // for people: "1 to 65535"
  std::function<std::optional<T>(Value&)> read;

  std::optional<T> operator()(Value& value) const { return read(value); }
  Reader as(std::string name) const { return {std::move(name), read}; }
};
template <typename T>
Reader<T> own(std::string type, std::optional<T> (*read)(Value&)) {
  return {std::move(type), read};
}

using Texts = std::vector<std::string>;
using Levels = std::variant<int, std::vector<Ms>>;  // how many, or their delays
Reader<std::string> text();                         // not empty
Reader<Ms> duration(Ms least = Ms{1}, Ms most = levels::kLongest);
Reader<Ms> whole_seconds(Ms least, Ms most);
Reader<int> integer(int least, int most);
Reader<double> number();
Reader<double> percent_or_off();
Reader<bool> boolean();
Reader<std::string> choice(const Texts& words);
// 1 to `most` letters, digits and . _ -
Reader<std::string> name(std::size_t most = 64);
// Any valid AMQP name: at most 255 bytes.
Reader<std::string> amqp_name();
// A file's path; relative paths start at the config's directory. The file must be readable, if the purpose
// needs it.
Reader<std::string> file();
Reader<std::string> url(const Texts& schemes);
// A list, or a comma-separated string (for environment variables).
Reader<Texts> urls(Texts schemes);
Reader<std::string> host_port();
Reader<Texts> names();  // a list; * matches any characters
Reader<Texts> pattern_or_patterns();

// The part of the config that a member belongs to.
template <typename Part>
Part& part_of(Config& config) {
  if constexpr (std::is_same_v<Part, BrokerOptions>) return config.broker;
  if constexpr (std::is_same_v<Part, rabbit::Options>) return config.broker.rabbitmq;
  if constexpr (std::is_same_v<Part, StoreOptions>) return config.store;
  if constexpr (std::is_same_v<Part, HttpOptions>) return config.http;
  if constexpr (std::is_same_v<Part, OidcOptions>) return config.http.oidc;
  if constexpr (std::is_same_v<Part, OtelOptions>) return config.otel;
  if constexpr (std::is_same_v<Part, ApiOptions>) return config.api;
  if constexpr (std::is_same_v<Part, LogOptions>) return config.log;
  if constexpr (std::is_same_v<Part, Config>) return config;
}

enum class When { start, live, secret };  // read at the start, or by SIGHUP, too; secret: at the start

// A row of a table of keys.
struct Key {
  std::string path;      // "broker.url", "queues.*.success.presumed_after"
  std::string type;      // "duration", "text", "integer", ...
  std::string fallback;  // the default, as in the file; "" = none
  When when;
  std::function<bool(Value&)> read;  // keeps what it has read in the node

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
  // The same, and the config has a member for it.
  template <typename Part, typename Member, typename T>
  Key(std::string its_path, Member Part::*member, Reader<T> reader, std::string its_fallback, When at)
      : Key(std::move(its_path), reader, std::move(its_fallback), at) {
    read = [keep = std::move(read), member](Value& v) {
      if (!keep(v)) return false;
      part_of<Part>(v.load.config).*member = std::any_cast<const T&>(v.node.value);
      return true;
    };
  }
};

struct Table {
  std::vector<Key> keys;
  // Keys whose value is a list of items with keys, and the form of an item.
  std::vector<std::pair<std::string, std::string_view>> lists;
  // An unknown key that is longer could be a secret in the wrong place, and is not shown.
  std::size_t longest_shown = std::string::npos;
};
// The table of all keys: a test compares examples/full.yaml and docs/configuration.md, which explain them,
// with it.
const Table& config_table();
std::vector<Key> service_keys();
std::vector<Key> rule_keys();

// Reads load.root by the table: reports what is wrong. `shown`: the path of the root.
void walk(Load& load, const Table& table = config_table(), const std::string& shown = "");

// How a value is compared with another config's: its text, a URL without its password, or only the keys.
enum class Secrecy { none, url, hidden };
// Equal for values that mean the same: sorted by key, durations in one form.
std::string canonical_text(const Node& value, Secrecy secrecy = Secrecy::none);

// What an entry of these lists looks like, for errors.
inline constexpr std::string_view kDelayForm = "{ from: EXCHANGE, to: EXCHANGE }";
inline constexpr std::string_view kErrorQueueForm = "{ from: QUEUE, dialect: NAME }";
inline constexpr std::string_view kCauseForm = "{ match: /EXPRESSION/, as: NAME } or { mask: /EXPRESSION/ }";
inline constexpr std::string_view kRuleForm = "{ when: { type: TimeoutError }, then: park }";

// "" if it is not known.
std::string host_name();
// "rung." if the name begins with Rung's prefix or that of a group; "" if it is a user's name.
std::string own_prefix(const Config& config, std::string_view name);
// Reports a queue or an exchange that is one of Rung's own, where the key names it.
void refuse_own(const Node& node, std::string_view key, const std::string& path, Load& load);

// Checks that involve several keys; also reads the files with secrets and builds the rule book.
void complete(Load& load);
// The groups of the file, with default prefixes filled in.
QueueGroups groups_of(const Load& load);
// Checks the section http, and reads its files with tokens.
void complete_http(Load& load);
// The checks of a config with an API, instead of all others.
void complete_api(Load& load);
// Checks `delays`, and copies those of this process's group to the config.
void complete_delays(Load& load);
// A client certificate needs two files.
void check_pair(Load& load, const std::string& section);
// Warns if every user of this machine can read the file with a secret. `why`: what is secret.
void warn_if_readable(Problems& problems, Mark at, const std::string& file, const std::string& why);
// `queues` of one who may use the HTTP API: a list of patterns. nullopt after an error.
std::optional<QueueScopePtr> read_queue_scope(Value& v);
// "reader", "operator" ...
Reader<std::string> role_word();

// The rules from ladders, queues and tags; nullptr on errors.
RuleBookPtr build_rules(Load& load);
// The value of a key that names a ladder; "" if it names none, or one that is not there, which is reported.
std::string ladder_at(const Node& node, std::string_view key, const std::string& path,
                      const RuleBook::Ladders& ladders, Load& load);
// The lists of `rules`; warns of rules that never match.
RuleBook::RuleLists build_rule_lists(const RuleBook::Ladders& ladders, Load& load);
// Finds rules that snooze a message from queue to queue in a circle.
void check_snooze_loops(const RuleBook& rules, Load& load);
// nullptr: there are no `causes`.
CauseRulesPtr build_cause_rules(Load& load);
// `error_queues`, those of this process's group.
ErrorQueuesPtr build_error_queues(const RuleBook::Ladders& ladders, Load& load);
// nullptr: not a valid dialect; the problems say why.
DialectPtr parse_dialect(std::string_view yaml, Problems& problems);
// The built-in dialects, and those of the config's files, which it reads.
Config::Dialects read_dialects(Load& load);
// All predefined ladders, by name.
const RuleBook::Ladders& ready_ladders();

}  // namespace rung::confile
