#include "plugin/rabbitmq/wire/connection_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/core/base/result.h"

namespace rung::rabbit {
namespace {

// A connection that lasted longer than this was a success: the backoff starts over.
constexpr auto kStableAfter = std::chrono::seconds{5};
// The first pause if waiting alone will not fix the error.
constexpr Ms kHopeless{2000};

const Error kStopped{Error::Kind::transient, "stopped"};

}  // namespace

ConnectionLoop::ConnectionLoop(Deps deps, Settings settings, Handler& handler)
    : deps_(deps), settings_(std::move(settings)), handler_(handler), waker_(deps_.addresses.clock()) {}

void ConnectionLoop::start() {
  thread_ = std::thread([this] {
    begin_thread(settings_.thread_name);
    run();
  });
}

void ConnectionLoop::join() {
  if (!thread_.joinable()) return;
  RUNG_REQUIRE(stopping());
  thread_.join();
}

void ConnectionLoop::run() {
  while (!stopping()) {
    const auto began = now();
    auto connection = connect();
    End end;
    if (connection) {
      end.why = serve(**connection);
      end.written = (*connection)->written();
      if (settings_.address_failed_when_over) deps_.addresses.failed((*connection)->address());
      if (now() - began > kStableAfter) backoff_.reset();
    } else {
      end.why = connection.error();
    }
    end.closed_by_peer = closed_by_peer_;
    handler_.over(end);
    if (stopping()) break;
    report_down(end.why);
    // The socket stays open meanwhile: the broker can still read what was sent, acks for example.
    wait_until(now() + backoff_.next(end.why.kind != Error::Kind::transient ? kHopeless : Ms{0}));
    if (connection) connection->reset();
  }
  handler_.stopped();
  report_down(kStopped);
}

Result<std::unique_ptr<Connection>> ConnectionLoop::connect() {
  closed_by_peer_.reset();
  return Connection::open(deps_.addresses, deps_.access, deps_.options.heartbeat,
                          deps_.options.connection_name + " (" + settings_.purpose + ")", waker_,
                          kSetUpTimeout, [this](Connection& connection) -> Result<void> {
                            auto ours = accepts(connection);
                            return ours ? handler_.prepare(connection) : ours;
                          });
}

Result<void> ConnectionLoop::accepts(const Connection& connection) const {
  if (settings_.any_broker) return {};
  return deps_.access.accepts(connection.cluster(), connection.address().shown);
}

Error ConnectionLoop::serve(Connection& connection) {
  (void)waker_.dropped();  // referred to the previous connection
  std::optional<std::uint32_t> accepted;
  for (;;) {
    if (const std::uint32_t version = deps_.access.version(); accepted != version) {
      if (auto ours = accepts(connection); !ours) return ours.error();
      accepted = version;
    }
    if (auto reason = waker_.dropped()) return Error{Error::Kind::transient, *std::move(reason)};
    const auto next = handler_.turn(connection);
    if (!next) return next.error();
    connection.sleep(waker_, *next);
  }
}

Result<void> ConnectionLoop::skip_frames(Connection& connection) {
  const auto open = read(connection, [](const Frame&) -> Result<bool> { return true; });
  if (!open) return tl::unexpected(open.error());
  if (!*open) return transient(connection.closing().text);
  return {};
}

Result<BootMs> ConnectionLoop::finish(Connection& connection, Ms most) {
  connection.close(std::min(stop_deadline(), now() + most));
  return tl::unexpected(kStopped);
}

void ConnectionLoop::wait_until(BootMs until) {
  for (;;) {
    const auto next = handler_.idle();
    if (stopping() || now() >= until) return;
    waker_.sleep(-1, 0, std::min(until, next));
  }
}

void ConnectionLoop::report_down(const Error& why) {
  if (settings_.side) deps_.sink.down(*settings_.side, why);
}

}  // namespace rung::rabbit
