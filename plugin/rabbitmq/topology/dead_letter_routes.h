// Whether what an exchange routes reaches <prefix>.failed: follows bindings, also between exchanges. A queue
// with a dead-letter exchange of its own is attached if that exchange is bound to <prefix>.failed.
// Thread: values. read_routes() blocks, as every call of a QueueAdmin.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/result.h"

namespace rung::rabbit {

class QueueAdmin;
struct QueueFacts;
struct Policy;

// Of a queue: its arguments, or else its policy; each of the two by itself.
struct DeadLetters {
  std::optional<std::string> exchange;     // none: they are dropped
  std::optional<std::string> routing_key;  // none: the message keeps its own
  bool by_argument = false;                // the exchange
};
DeadLetters dead_letters_of(const QueueFacts& facts, const std::vector<Policy>& policies);

// A binding of an exchange.
struct Binding {
  std::string source;  // the exchange
  std::string routing_key;
  std::string arguments = "{}";  // a JSON object, as text
  std::string to = {};           // by DeadLetterRoutes::ways(): an exchange; "" = the queue <prefix>.failed
};

class DeadLetterRoutes {
 public:
  enum class Reach { no, some, all };  // some: it depends on the message's routing key or headers

  void add_exchange(const std::string& name, std::string type) { exchanges_[name].type = std::move(type); }
  // `to`: an exchange that has been added; "" = the queue.
  void add_binding(Binding binding, const std::string& to);
  bool knows(const std::string& exchange) const { return exchanges_.contains(exchange); }

  // `key`: none = any.
  Reach reach(const std::string& exchange, const std::optional<std::string>& key) const;
  // The bindings of the exchange by which it does.
  std::vector<Binding> ways(const std::string& exchange, const std::optional<std::string>& key) const;

 private:
  struct Exchange {
    std::string type;
    std::vector<Binding> bindings;
  };
  Reach reach(const std::string& exchange, const std::optional<std::string>& key, int depth) const;
  Reach through(const Exchange& exchange, const Binding& binding, const std::optional<std::string>& key,
                int depth) const;

  std::map<std::string, Exchange> exchanges_;
};

// Whether a topic exchange's binding matches the routing key: words between dots, * is one word, # any
// number.
bool matches_topic(std::string_view pattern, std::string_view key);

// The ways to <prefix>.failed. `foreign`: also through exchanges of others, at most kMostExchanges of them.
// Without it only whether the exchange <prefix>.failed is bound to its queue.
inline constexpr std::size_t kMostExchanges = 50;
Result<DeadLetterRoutes> read_routes(QueueAdmin& admin, std::string_view prefix, bool foreign);
// Whether some queue's dead letters go elsewhere than to <prefix>.failed.
bool any_foreign(const std::vector<QueueFacts>& queues, const std::vector<Policy>& policies,
                 std::string_view prefix);

}  // namespace rung::rabbit
