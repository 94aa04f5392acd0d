#include "plugin/rabbitmq/topology_keeper.h"

#include <utility>

#include "plugin/rabbitmq/threads.h"
#include "plugin/rabbitmq/topology.h"

namespace rung::rabbit {

TopologyKeeper::TopologyKeeper(const BrokerOptions& options, Addresses& addresses, std::shared_ptr<Tls> tls,
                               Voice& voice)
    : options_(options),
      addresses_(addresses),
      tls_(std::move(tls)),
      voice_(voice),
      waker_(addresses.clock()) {}

TopologyKeeper::~TopologyKeeper() { join(); }

void TopologyKeeper::start() {
  thread_ = start_thread("rung-topology", [this] { run(); });
}

void TopologyKeeper::join() {
  if (thread_.joinable()) thread_.join();
}

// The consumer declares the topology when it connects: the first check comes after one interval.
void TopologyKeeper::run() {
  auto next = waker_.now() + options_.rabbitmq.topology_check;
  while (!waker_.stopping()) {
    if (!idle(next)) connection_.reset();
    if (waker_.stopping() || waker_.now() < next) continue;
    if (check()) {
      backoff_.reset();
      next = waker_.now() + options_.rabbitmq.topology_check;
    } else {
      connection_.reset();
      next = waker_.now() + backoff_.next();
    }
  }
  if (connection_) connection_->close(std::min(waker_.deadline(), waker_.now() + std::chrono::seconds{1}));
}

bool TopologyKeeper::idle(BootMs until) {
  while (!waker_.stopping() && waker_.now() < until) {
    if (!connection_) {
      waker_.sleep(-1, 0, until);
      continue;
    }
    const auto more = connection_->fill();
    if (!more) return false;
    Frame frame;
    for (auto got = connection_->next(frame);; got = connection_->next(frame)) {
      if (!got) return false;
      if (!*got) break;
      if (frame.method() == AMQP_CONNECTION_CLOSE_METHOD) {
        connection_->closed_by_peer(frame);
        return false;
      }
    }
    if (*more) continue;
    if (!connection_->tick()) return false;
    connection_->sleep(waker_, until);
  }
  return true;
}

// False where the broker can't be reached: the consumer reports that.
bool TopologyKeeper::check() {
  if (!connection_) {
    auto opened = Connection::open(addresses_, tls_.get(), options_.heartbeat,
                                   options_.connection_name + " (topology)", waker_, kSetUp);
    if (!opened) return false;
    connection_ = std::move(*opened);
    if (!connection_->open_channel(waker_, waker_.now() + kSetUp, [](const Frame&) {})) return false;
  }
  const auto deadline = waker_.now() + kSetUp;
  const auto report = repair_topology(options_, *connection_, waker_, deadline);
  if (!report) return false;
  voice_.topology(*report);
  return true;
}

}  // namespace rung::rabbit
