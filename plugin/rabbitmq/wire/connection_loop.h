// The loop shared by the consumer, each publisher and the topology keeper, on its own thread: connects to one
// of the broker's addresses, serves the connection until it ends, pauses, and connects again, until
// order_stop().
//
// Thread: start, wake, drop, order_stop, stopping, now and join from any thread. Everything else belongs to
// the loop's own thread.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/calls.h"
#include "plugin/rabbitmq/wire/connection.h"
#include "plugin/rabbitmq/wire/wire.h"
#include "src/core/base/addresses.h"
#include "src/core/base/result.h"
#include "src/core/base/threads.h"
#include "src/core/base/time.h"

namespace rung::rabbit {

// Passes items from other threads to a connection's thread, in batches. Unbounded: the callers bound what is
// in flight. Wakes nobody. Thread: put from any; take from the receiver's own.
template <typename T>
class Mailbox {
 public:
  void put(std::vector<T> batch) {
    const std::lock_guard lock(mutex_);
    if (items_.empty()) {
      items_ = std::move(batch);
    } else {
      items_.insert(items_.end(), std::make_move_iterator(batch.begin()),
                    std::make_move_iterator(batch.end()));
    }
  }
  // Everything put so far. Valid until the next call.
  std::vector<T>& take() {
    taken_.clear();
    const std::lock_guard lock(mutex_);
    taken_.swap(items_);
    return taken_;
  }

 private:
  std::mutex mutex_;
  std::vector<T> items_;  // guarded by mutex_
  std::vector<T> taken_;  // the receiver's
};

// What the connections of one broker report to its sink. All but the status goes straight to sink(). The
// status is combined here from both sides; the sink is called only when it changes, one call at a time.
// Thread: any.
class SinkAdapter {
 public:
  enum class Side : std::uint8_t { intake, publishing };

  explicit SinkAdapter(BrokerSink& sink) : sink_(sink) {}

  BrokerSink& sink() { return sink_; }
  // That side's connection is up, at this "host:port".
  void up(Side side, const std::string& address) {
    const std::lock_guard lock(mutex_);
    (side == Side::intake ? status_.consuming_at : status_.publishing_at) = address;
    change(flag_of(side), true, false, {}, false);
  }
  void down(Side side, const Error& why) {
    const std::lock_guard lock(mutex_);
    change(flag_of(side), false, true, why.message, why.kind == Error::Kind::refused);
  }
  void blocked(bool yes, std::string reason = {}) {
    const std::lock_guard lock(mutex_);
    change(blocked_, yes, yes, std::move(reason), false);
  }

 private:
  // One flag of the status, with its own reason: two sides that fail with different messages must not report
  // in turns.
  struct Flag {
    bool BrokerStatus::*what;
    std::string reason = {};
    bool refused = false;
  };
  Flag& flag_of(Side side) { return side == Side::intake ? consuming_ : publishing_; }

  // REQUIRES: mutex_ is held.
  void change(Flag& flag, bool to, bool worse, std::string reason, bool refused) {
    if (status_.*flag.what == to && (!worse || flag.reason == reason)) return;
    status_.*flag.what = to;
    flag.reason = worse ? std::move(reason) : std::string();
    flag.refused = worse && refused;
    if (worse) status_.reason = flag.reason;
    status_.refused = consuming_.refused || publishing_.refused;
    sink_.on_status(status_);
  }

  BrokerSink& sink_;
  std::mutex mutex_;
  // Guarded by mutex_.
  BrokerStatus status_;
  Flag consuming_{&BrokerStatus::consuming}, publishing_{&BrokerStatus::publishing},
      blocked_{&BrokerStatus::blocked};
};

class ConnectionLoop {
 public:
  // REQUIRES: the references outlive the loop.
  struct Deps {
    const BrokerOptions& options;  // heartbeat and connection_name
    Addresses& addresses;
    Access& access;
    SinkAdapter& sink;
  };

  struct Settings {
    const char* thread_name;
    std::string purpose;                    // "publish": part of the connection's name
    std::optional<SinkAdapter::Side> side;  // the side whose status the loop reports; none = no report
    bool any_broker = false;                // true: not only the one of Broker::serve_only()
    bool address_failed_when_over = true;   // false: a connection that ends says nothing about its address
  };

  // How a connection ended, or why there was none.
  struct End {
    Error why;
    std::uint64_t written = 0;              // bytes that the socket accepted, since the login
    std::optional<Closing> closed_by_peer;  // connection.close came while the connection was served
  };

  // Serves the connections. Called on the loop's thread.
  class Handler {
   public:
    virtual ~Handler() = default;
    // After the login: opens the channel and declares what is needed, within its own time limit. An error
    // ends the connection, and the next address is tried at once.
    virtual Result<void> prepare(Connection&) { return {}; }
    // One turn of service: reads, writes, sends heartbeats. Returns when the next turn is due at the latest;
    // it comes earlier when the socket is ready or after wake(). An error ends the connection.
    virtual Result<BootMs> turn(Connection& connection) = 0;
    // One turn without a connection, during a pause. Returns when the next is due at the latest.
    virtual BootMs idle() { return BootMs{std::numeric_limits<std::int64_t>::max()}; }
    // After each connection and each failed attempt. What it reports to the sink comes before the status
    // "down".
    virtual void over(const End& end) = 0;
    // The last call: no connection will follow.
    virtual void stopped() {}
  };

  // REQUIRES: `handler` outlives the loop's thread.
  ConnectionLoop(Deps deps, Settings settings, Handler& handler);

  void start();
  void wake() { waker_.wake(); }
  // Ends the current connection as if it were lost. The loop opens another.
  void drop(std::string reason) { waker_.drop(std::move(reason)); }
  // The thread should have ended by `deadline`.
  void order_stop(BootMs deadline) { waker_.stop(deadline); }
  // Waits for the thread to end. REQUIRES: order_stop() was called, unless the loop was never started.
  void join();
  bool stopping() const { return waker_.stopping(); }
  BootMs now() const { return waker_.now(); }

  BootMs stop_deadline() const { return waker_.deadline(); }
  // For calls on the connection; they end early when the loop is to stop. `others`: as in Calls.
  Calls calls(
      Connection& connection, Connection::Others others = [](const Frame&) {}) {
    return {connection, waker_, now() + kSetUpTimeout, std::move(others)};
  }
  BrokerSink& sink() { return deps_.sink.sink(); }
  // To the sink, if the loop has a side. It reports by itself when the connection is down.
  void report_up(const Connection& connection) {
    if (settings_.side) deps_.sink.up(*settings_.side, connection.address().shown);
  }
  void report_blocked(bool yes, std::string reason = {}) {
    if (settings_.side) deps_.sink.blocked(yes, std::move(reason));
  }

  // Reads what has arrived and passes it to `take_frame` (const Frame&) -> Result<bool>; false: the broker
  // has closed the channel, stop reading. It never gets connection.close, which is answered here. If there is
  // much to read, returns early so that writes and heartbeats get their turn; the next turn then comes at
  // once. False: the connection or channel is closed; connection.closing() says why.
  template <typename TakeFrame>
  Result<bool> read(Connection& connection, const TakeFrame& take_frame) {
    constexpr int kReads = 16;
    for (int i = 0; i < kReads; ++i) {
      const auto more = connection.fill();
      if (!more) return tl::unexpected(more.error());
      Frame frame;
      for (;;) {
        const auto got = connection.next(frame);
        if (!got) return tl::unexpected(got.error());
        if (!*got) break;
        if (frame.method() == AMQP_CONNECTION_CLOSE_METHOD) {
          closed_by_peer_ = connection.closed_by_peer(frame);
          return false;
        }
        const Result<bool> open = take_frame(frame);
        if (!open || !*open) return open;
      }
      if (!*more) return true;
    }
    waker_.wake();  // there may be more: do not sleep
    return true;
  }

  // The same for a connection on which nothing comes by itself. Error: it is closed.
  Result<void> skip_frames(Connection& connection);
  // For a turn that ends the connection because the loop stops: sends connection.close and waits for the
  // answer for `most`, or until stop_deadline().
  Result<BootMs> finish(Connection& connection, Ms most);

 private:
  void run();
  Result<std::unique_ptr<Connection>> connect();
  Result<void> accepts(const Connection& connection) const;
  Error serve(Connection& connection);
  void wait_until(BootMs until);
  void report_down(const Error& why);

  const Deps deps_;
  const Settings settings_;
  Handler& handler_;
  Waker waker_;
  std::thread thread_;

  // Used by the loop's thread only.
  Backoff backoff_{Ms{100}, Ms{5000}};
  std::optional<Closing> closed_by_peer_;  // of the current or the last connection
};

}  // namespace rung::rabbit
