// The producers of failures and delays. Each message has its own random stream: one more or less does not
// change the others. Thread: one.
#pragma once

#include <memory>
#include <vector>

#include "tests/simulator/judge.h"
#include "tests/simulator/node.h"

namespace rung::sim {

using Nodes = std::vector<std::unique_ptr<Node>>;

// A node that serves; nullptr if none does.
Node* some_node(const Nodes& nodes, Rng& dice);

class Producers {
 public:
  Producers(World& world, BrokerServer& server, Judge& judge, const Nodes& nodes)
      : world_(world), server_(server), judge_(judge), nodes_(nodes) {}

  void start();  // plans all messages; in a steady world each minute those of that minute
  // Submits many large messages that are due almost at once, so that the simulation ends under load.
  void burst(int first, int count, Ms delay);
  // An application copies the headers of one of our deliveries into its own message.
  void forge(const Message& delivery, const std::string& queue, Rng& dice);
  int last() const { return last_; }

 private:
  void plan(int first, int last, Us from, Us length);
  void plan_minute();
  void fail(int number, Rng dice);
  void report(int number, Rng dice);
  void delay(int number, Rng dice);
  void submit(int number, const std::string& queue, Ms delay, std::int64_t bytes, int tries);
  void put(int number, const std::string& exchange, const std::string& key, const Message& message,
           std::int64_t delay_us);
  std::int64_t first_delay(const std::string& queue) const;
  Message message(int number, bool has_id);

  World& world_;
  BrokerServer& server_;
  Judge& judge_;
  const Nodes& nodes_;
  int last_ = 0;
};

}  // namespace rung::sim
