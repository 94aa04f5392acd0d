// Loads and validates rung.yaml. Only this room uses yaml-cpp.
// Thread: load_config only reads files and the environment; Config is a value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/broker_options.h"
#include "src/core/base/url.h"
#include "src/core/machine/headers.h"
#include "src/core/rules/people.h"
#include "src/core/rules/policy.h"
#include "src/store/options.h"

namespace rung {

struct LogOptions {
  std::string level = "info";   // trace debug info warn error
  std::string format = "text";  // or json
};

struct HttpOptions {
  std::optional<Url> listen;  // its host and port; none: no HTTP
  std::string token_file, read_token_file, tokens_file;
  std::vector<std::string> tokens, read_tokens;  // content of the files; empty = none. Secret
  std::vector<PersonToken> people;               // of tokens_file
  OidcOptions oidc;
  std::string cert, key;  // both: TLS
  int connections = 64;
  int connections_per_address = 0;  // 0 = three quarters of connections
  int max_body = 16;                // MB
  Ms timeout{std::chrono::seconds{10}};
  std::optional<bool> console;                             // none: where it listens on a loopback address
  std::vector<std::pair<std::string, std::string>> peers;  // name and URL of other groups' APIs
  std::string url;  // where browsers reach it; "" = by the Host of their requests
  bool has_console() const;
};

// Traces (docs/traces.md).
struct OtelOptions {
  std::string endpoint;  // "http://collector:4318"; "" = no traces
  std::string service = "rung";
  std::vector<std::pair<std::string, std::string>> headers;  // secret
  std::string ca;                                            // "" = the system's
  bool verify = true;
  double sample = 1.0;  // share of the tasks, 0 to 1
};

// The API of an instance, for commands that use it instead of the database (docs/cli.md).
struct ApiOptions {
  std::string url;         // "https://rung.example:8025"; "" = none
  std::string token_file;  // "" = none
  std::string ca;          // "" = the system's
};

// The value of a key as text: as it is, and without secrets; and the key's default.
struct KeyText {
  std::string value, shown;
  std::string_view fallback;
};

struct Config {
  using Dialects = std::map<std::string, DialectPtr, std::less<>>;

  BrokerOptions broker;
  StoreOptions store;
  HttpOptions http;
  OtelOptions otel;
  ApiOptions api;  // with a URL there is nothing else: neither broker nor store
  LogOptions log;
  std::string node;  // never empty after loading
  Ms lease{std::chrono::seconds{10}};
  Ms window{std::chrono::minutes{10}};
  Ms drain{std::chrono::seconds{10}};
  Ms attachment_check{std::chrono::minutes{1}};  // broker.attachment_check
  Ms start_wait{std::chrono::seconds{30}};
  int max_loaded = 1'000'000;
  std::optional<Ms> retention;  // none: off
  DelayRoutes::Moves delays;    // from -> to
  bool require_token = true;    // results.require_token
  QueueGroups groups;           // groups.own: the group that this Config is for
  RuleBookPtr rules;
  Dialects dialects;  // all that error_queues may name, by name
  // The keys in the file that SIGHUP does not apply, for keys_for_restart(): "lease", "error_queues[1].from";
  // and those that it applies, for describe_changes(): "queues.orders" as a whole, "log.level". Both for
  // fingerprint(). Secret.
  std::map<std::string, KeyText> at_start, reloadable;
};

struct ConfigProblem {
  std::string file;
  int line = 0, column = 0;  // from 1; 0 = the file as a whole
  std::string what;          // the error, and what is accepted
  std::string str() const;   // file:line:column: what
};

// The error of a command that cannot do with a config that has only an API (Config::api).
inline constexpr std::string_view kOnlyApi =
    "api: this config has only the API of an instance, and this command needs the broker or the database: "
    "give "
    "it a config with broker and store (-c FILE)";

// What the config is loaded for: which of the files and ${NAME} variables in it must exist. So a command that
// only needs the database works without permission to read the sidecar's tokens and keys.
enum class ConfigFor {
  sidecar,   // all of them
  database,  // those of store.*; others are ignored
  api,       // the same, or those of api.*: for commands that do without a database
  reading,   // the same, for commands that only read: mistakes in other sections are warnings
  broker,    // those of broker.*; others are ignored
  health,    // variables of http.*; others, and all files, are ignored
  check,     // none: unreadable files are warnings, readable ones are checked
};

// Which of the config's groups to use. The sidecar and commands that use a database need one; without one,
// broker.prefix is empty.
struct GroupChoice {
  std::string name = {};           // "" = not set
  std::string source = "--group";  // where the name comes from, for errors
  std::string queue = {};          // without a name: the group that has this queue
};

struct LoadedConfig {
  Config config;                        // valid only if problems is empty
  std::vector<ConfigProblem> problems;  // all errors, in the order of the file
  // For the sidecar and for check: settings that work but should be changed.
  std::vector<ConfigProblem> warnings;
  bool ok() const { return problems.empty(); }
};

// The keys that differ and need a restart, by their name in the file. A key that is left out has its default.
// Keys of other groups do not matter. Files that a key names are not compared.
std::vector<std::string> keys_for_restart(const Config& running, const Config& loaded);

// What differs in what SIGHUP applies, for people: "~ladders.default, +queues.orders, -queues.invoices". "" =
// nothing.
std::string describe_changes(const Config& running, const Config& loaded);

// The same for two instances with the same effective config, whatever their secrets, node names, HTTP
// addresses and the databases of other groups. 16 hexadecimal digits.
std::string fingerprint(const Config& config);

// The dialects of the program, for use without a config.
const Config::Dialects& built_in_dialects();

LoadedConfig load_config(const std::string& path, ConfigFor purpose = ConfigFor::sidecar,
                         GroupChoice choice = {});

// The output of `rung check`: each ladder as a timeline (level, delay, time since first failure), then
// queues, tags and delayed exchanges.
std::string describe(const Config& config);

// The output of `rung check --queue`: which entry the queue follows, and what it says.
std::string describe_queue(const Config& config, const std::string& queue);

// The error if a group is required but not given; lists the groups.
std::string which_group(const QueueGroups& groups);

}  // namespace rung
