// rung.yaml, read and checked. yaml-cpp lives behind this header alone.
// Thread: load_config is pure but for the file and the environment; Config is a value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "src/core/headers.h"
#include "src/core/policy.h"
#include "src/store/options.h"

namespace rung {

struct LogOptions {
  std::string level = "info";   // trace debug info warn error
  std::string format = "text";  // or json
};

struct HttpOptions {
  std::string listen;  // host:port; "" = none
  std::string host;    // of `listen`, without an IPv6 address's brackets
  int port = 0;
  std::string token_file, read_token_file;
  std::string token, read_token;  // what the files hold; "" = none. Secret
  std::string cert, key;          // both: TLS
  int connections = 64;
  int connections_per_address = 0;  // of them; 0 = three quarters
  int max_body = 16;                // MB
  Ms timeout{std::chrono::seconds{10}};
};

struct Config {
  BrokerOptions broker;
  StoreOptions store;
  HttpOptions http;
  LogOptions log;
  std::string node;  // never empty after loading
  Ms lease{std::chrono::seconds{10}};
  Ms window{std::chrono::minutes{10}};
  Ms drain{std::chrono::seconds{10}};
  Ms attachment_check{std::chrono::minutes{1}};  // broker.attachment_check
  Ms start_wait{std::chrono::seconds{30}};
  int max_loaded = 1'000'000;
  std::optional<Ms> retention;        // none: off
  DelayRoutes::Moves delays;          // from -> to
  std::optional<bool> require_token;  // results.require_token; none: as the database's age says
  QueueGroups groups;                 // groups.own: the one that prefix, database and so on are of
  RuleBookPtr rules;
};

struct ConfigProblem {
  std::string file;
  int line = 0, column = 0;  // from 1; 0 = the file as a whole
  std::string what;          // what is wrong, what would be right
  std::string str() const;   // file:line:column: what
};

// What a config is loaded for: which of the files that it names, and of the ${NAME} in it, must be there. A
// token or a key that only the sidecar's user may read keeps nobody from asking the database.
enum class ConfigFor {
  sidecar,   // all of them
  database,  // those of store.*; the others are not looked at
  broker,    // those of broker.*; the others are not looked at
  check,     // none: what can't be read is a warning; what can is judged
};

// Which of the config's groups is meant, where it has groups. The sidecar and what asks a database need one;
// without one broker.prefix is empty.
struct GroupChoice {
  std::string name = {};            // "" = not said
  std::string said_by = "--group";  // for what is told
  std::string queue = {};           // where no name is said: the group that has this queue
};

struct LoadedConfig {
  Config config;                        // meaningful where problems is empty
  std::vector<ConfigProblem> problems;  // all of them, in the order of the file
  // For the sidecar and for check: what goes on working and should be changed.
  std::vector<ConfigProblem> warnings;
  std::vector<std::string> keys_used;  // the keys of the table that the file holds, by ConfigKey::path
  bool ok() const { return problems.empty(); }
};

LoadedConfig load_config(const std::string& path, ConfigFor purpose = ConfigFor::sidecar,
                         GroupChoice choice = {});

// The one table of keys: the loader walks it, `rung check`, examples/full.yaml and docs/configuration.md are
// held against it by a test.
struct ConfigKey {
  std::string_view path;      // "broker.url", "queues.*.success.presumed_after"
  std::string_view type;      // "duration", "text", "integer", ...
  std::string_view fallback;  // as a user would write it; "" = none
  bool reloadable;            // by SIGHUP
  bool secret;
  std::string_view meaning;  // one line
};
std::vector<ConfigKey> config_keys();

// `rung check`: each ladder as a timeline: level, delay, time since first failure; then which queue uses
// which, the tags, and which exchanges' messages are delayed.
std::string describe(const Config& config);

// Where a group must be said and is not: what to do, and which there are.
std::string which_group(const QueueGroups& groups);

// A URL with its password replaced: for logs and messages.
std::string without_password(std::string_view url);

}  // namespace rung
