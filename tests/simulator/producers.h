// Those from whom failures and delays come. Each message has dice of its own: one more or less changes
// nothing for the others. Thread: one.
#pragma once

#include <memory>
#include <vector>

#include "tests/simulator/judge.h"
#include "tests/simulator/node.h"

namespace rung::sim {

using Nodes = std::vector<std::unique_ptr<Node>>;

// One that serves; nullptr where none does.
Node* some_node(const Nodes& nodes, Rng& dice);

class Producers {
 public:
  Producers(World& world, BrokerServer& server, Judge& judge, const Nodes& nodes)
      : world_(world), server_(server), judge_(judge), nodes_(nodes) {}

  void start();  // plans all of them
  // Many large messages at once, due within a moment: for an end under load.
  void burst(int first, int count, Ms delay);
  // Somebody copies the headers of a delivery of ours into a message of his own.
  void forge(const Message& delivery, const std::string& queue, Rng& dice);
  int last() const { return last_; }

 private:
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
