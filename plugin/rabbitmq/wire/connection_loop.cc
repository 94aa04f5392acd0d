#include "plugin/rabbitmq/wire/connection_loop.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/core/base/result.h"

namespace rung::rabbit {
namespace {

// A connection that lasted longer than this was a success: the backoff starts over.
constexpr auto kStableAfter = std::chrono::seconds{5};

const Error kStopped{Error::Kind::transient, "stopped"};

// A thread that receives no signals (the main thread handles them; SIGPIPE, which OpenSSL's writes can raise,
// is not handled at all), and that has a name in ps and gdb.
template <typename Body>
std::thread start_thread(const char* name, Body&& body) {
  return std::thread([name, body = std::forward<Body>(body)] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

}  // namespace

ConnectionLoop::ConnectionLoop(Deps deps, Settings settings, Callbacks callbacks)
    : deps_(deps),
      settings_(std::move(settings)),
      callbacks_(std::move(callbacks)),
      waker_(deps_.addresses.clock()) {}

void ConnectionLoop::start() {
  thread_ = start_thread(settings_.thread_name, [this] { run(); });
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
    callbacks_.over(end);
    if (stopping()) break;
    report_down(end.why);
    // The socket stays open meanwhile: the broker can still read what was sent, acks for example.
    wait_until(now() + backoff_.next(end.why.kind != Error::Kind::transient));
    if (connection) connection->reset();
  }
  if (callbacks_.stopped) callbacks_.stopped();
  report_down(kStopped);
}

Result<std::unique_ptr<Connection>> ConnectionLoop::connect() {
  closed_by_peer_.reset();
  const auto set_up = [this](Connection& connection) -> Result<void> {
    if (auto ours = accepts(connection); !ours || !settings_.prepare_decides_on_address) return ours;
    return callbacks_.prepare(connection);
  };
  auto connection = Connection::open(deps_.addresses, deps_.access, deps_.options.heartbeat,
                                     deps_.options.connection_name + " (" + settings_.purpose + ")", waker_,
                                     kSetUpTimeout, set_up);
  if (!connection || settings_.prepare_decides_on_address || !callbacks_.prepare) return connection;
  if (auto done = callbacks_.prepare(**connection); !done) {
    deps_.addresses.failed((*connection)->address());  // login worked, but then it did not serve
    return tl::unexpected(done.error());
  }
  return connection;
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
    const auto next = callbacks_.turn(connection);
    if (!next) return next.error();
    connection.sleep(waker_, *next);
  }
}

Result<void> ConnectionLoop::skip_frames(Connection& connection) {
  const auto open = read(
      connection, [](const Frame&) -> Result<bool> { return true; }, [] {});
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
    const auto next = callbacks_.idle ? callbacks_.idle() : until;
    if (stopping() || now() >= until) return;
    waker_.sleep(-1, 0, std::min(until, next));
  }
}

void ConnectionLoop::report_down(const Error& why) {
  if (settings_.side) deps_.sink.down(*settings_.side, why);
}

}  // namespace rung::rabbit
