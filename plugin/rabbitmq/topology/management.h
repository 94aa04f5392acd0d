// A client of RabbitMQ's management API: queues, exchanges, bindings and policies of one virtual host.
//
// Thread: use a QueueAdmin from one thread. Every call blocks, bounded by the admin's timeout: never call it
// on the loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker_options.h"
#include "src/core/base/result.h"
#include "src/core/base/url.h"

namespace rung::rabbit {

struct QueueFacts {
  std::optional<std::string> dead_letter_argument;  // x-dead-letter-exchange; it overrides any policy
  std::string policy;                               // the one in effect; "" = none
  std::string type;                                 // classic, quorum, stream; "" = not reported
  std::string name = {};
  nlohmann::json arguments = nlohmann::json::object();  // all of them
  bool exclusive = false;                               // belongs to one connection and is deleted with it
  bool auto_delete = false;                             // is deleted when its last consumer leaves
  bool durable = true;
  std::vector<std::string> nodes = {};   // cluster nodes known to host it
  nlohmann::json effective_policy = {};  // of policy and operator policy together; null = not told
  std::string operator_policy = {};      // "" = none
};

struct ExchangeFacts {
  std::string name, type;
  std::string policy = {};  // "" = none
  nlohmann::json arguments = nlohmann::json::object();
};

// A binding of an exchange.
struct Binding {
  std::string source;  // the exchange
  std::string routing_key;
  nlohmann::json arguments = nlohmann::json::object();
  std::string to = {};  // by DeadLetterRoutes::ways(): an exchange; "" = the queue <prefix>.failed
  std::string destination = {}, destination_type = {};
};

struct Policy {
  std::string name, pattern;
  std::string apply_to = "queues";
  nlohmann::json definition = nlohmann::json::object();
  int priority = 0;
};

// Errors: transient = unreachable, or login refused (another way may work); not_found; permanent = request
// refused.
class QueueAdmin {
 public:
  // `urls`: addresses of one API, the nodes of a cluster. Callers use management_admin().
  QueueAdmin(const std::vector<Url>& urls, const BrokerOptions& options, Ms timeout);
  ~QueueAdmin();

  // "the management API at 127.0.0.1:15672": for messages.
  std::string name() const;
  // Whether it is reachable, accepts our login, and manages the broker of the config.
  Result<void> reach();
  Result<QueueFacts> queue(std::string_view name);
  Result<std::vector<QueueFacts>> queues();  // all in the virtual host
  // Rung's own that exist, with what policies set there: some seconds old. The others come without it.
  Result<std::vector<QueueFacts>> own_queues(std::string_view prefix);
  Result<ExchangeFacts> exchange(std::string_view name);
  // By queue: how many messages have been published to it so far; a number seconds old. Without those of
  // which nothing is known.
  Result<std::map<std::string, std::int64_t, std::less<>>> published();
  // Of this queue, or else exchange, as the destination; none if it does not exist.
  Result<std::vector<Binding>> bindings(bool of_queue, std::string_view name);
  // What the exchange is bound to; the same.
  Result<std::vector<Binding>> bindings_of(std::string_view exchange);
  Result<std::vector<Policy>> policies();
  Result<void> put(const Policy& policy);
  Result<void> remove(std::string_view policy);
  // Names of cluster nodes. RabbitMQ shows them to users with the tag monitoring, not policymaker.
  Result<std::vector<std::string>> nodes();
  // Any thread: aborts the call that waits for an answer, and all later ones.
  void interrupt();

 private:
  struct Endpoint;  // one address of the API
  using Row = std::function<void(const nlohmann::json& row)>;

  const Endpoint& here() const { return *endpoints_[at_]; }
  // Asks the node that answered last, else the next one. All our requests may be repeated. `doing`: what the
  // call is for, used in the message about a refusal.
  Result<nlohmann::json> ask(const char* doing, const char* method, const std::string& path,
                             const std::string& body = "");
  Result<nlohmann::json> get(const std::string& path, const char* doing);
  // What `make` makes of the objects of a list.
  template <typename T>
  Result<std::vector<T>> list(const std::string& path, const char* doing,
                              T (*make)(const nlohmann::json& row));
  Result<std::vector<Binding>> list_bindings(const std::string& path);
  // Calls `row` for the objects of a list of queues, which comes in pages.
  Result<void> each_queue(const std::string& query, const Row& row);
  std::string path_of(const char* what, std::string_view name = {}) const;
  std::string permit() const;
  Error refused(int status, const std::string& said, const char* doing) const;

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::size_t at_ = 0;
  std::size_t listed_bytes_ = 0;  // of answers, since each_queue() began
  Ms listing_{0};                 // how long they took
  std::atomic<bool> interrupted_{false};
  const std::string base_, vhost_;
  const Ms timeout_;
};

// Uses broker.management, else port 15672 of the broker's hosts (the first that answers); logs in as its own
// user, else as the broker's. Permanent error if a URL does not parse.
Result<std::unique_ptr<QueueAdmin>> management_admin(const BrokerOptions& options, Ms timeout);

// The cluster nodes that the management API shows: all of them to a user with the tag monitoring, else those
// that host one of `queues`.
std::vector<std::string> cluster_nodes(const BrokerOptions& options, const std::vector<QueueFacts>& queues,
                                       Ms timeout);

}  // namespace rung::rabbit
