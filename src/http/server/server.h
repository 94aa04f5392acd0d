// The HTTP server, built on Boost.Beast (HTTP) and Boost.Asio (sockets, timers, TLS, threads). We add the
// limits: the number of connections, which one is evicted, the time for a request, and the memory for bodies.
// Thread: start(), drain() and stop() any. `admit` runs on the I/O thread and must not block; the work that
// it returns runs on a worker, many at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/base/message.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::http {

// Smaller requests and responses are never refused for lack of memory.
inline constexpr std::size_t kSmallBody = 64 * 1024;

// A memory budget in bytes, shared by several requests. Thread: any.
class Budget {
 public:
  // The share of one request. Returned when it is destroyed.
  class Share {
   public:
    explicit Share(Budget& budget) : budget_(&budget) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() {
      if (bytes_ == 0) return;
      const std::lock_guard lock(budget_->mutex_);
      budget_->held_ -= bytes_;
      budget_->given_back_.notify_all();
    }
    // Takes `bytes` more, after waiting at most `most_wait`; false: no room, and nothing has changed. A
    // request that is alone gets all it wants.
    bool grow(std::int64_t bytes, Ms most_wait = Ms{0}) {
      std::unique_lock lock(budget_->mutex_);
      const auto room = [&] { return budget_->held_ == bytes_ || budget_->held_ + bytes <= budget_->most_; };
      if (!budget_->given_back_.wait_for(lock, most_wait, room)) return false;
      budget_->held_ += bytes;
      bytes_ += bytes;
      return true;
    }
    // The same without a limit: for amounts that are too small to be refused, but still count.
    void add(std::int64_t bytes) {
      const std::lock_guard lock(budget_->mutex_);
      budget_->held_ += bytes;
      bytes_ += bytes;
    }
    std::int64_t bytes() const { return bytes_; }

   private:
    Budget* budget_;
    std::int64_t bytes_ = 0;
  };

  explicit Budget(std::int64_t most) : most_(most) {}

 private:
  const std::int64_t most_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::int64_t held_ = 0;  // guarded by mutex_
};

// Decides which connections are served. A regular place serves every request. When all regular places are
// taken, or one address has used up its share, a new connection gets a spare place: it serves one request,
// and only for health probes. A connection that waits for a request loses its place to a newer one, so that
// half-sent requests can't lock out a probe. Thread: one, except count() and wait_until_empty().
class Places {
 public:
  static constexpr int kSpare = 16;
  static constexpr int kSpareOfOneAddress = kSpare / 2;

  class Connection {
   public:
    virtual ~Connection() = default;
    virtual void evict() = 0;  // closes it: its place has been released and goes to another connection
    virtual void drain() = 0;  // closes it unless a request is arriving or being served
    virtual void abort() = 0;  // closes it unless a request is being served
  };

  struct Place {
    const std::string peer;
    const bool spare;
    Connection* connection = nullptr;  // set by the connection that takes the place
    std::uint64_t waiting_since = 0;   // an increasing number; 0 = a request is being served
  };

  // `most`: number of regular places; `most_of_one_address`: how many of them one address may have.
  Places(int most, int most_of_one_address) : most_(most), most_of_one_address_(most_of_one_address) {}

  // A place for a new connection, which waits for its first request. If none is free, the connection that has
  // waited longest is closed and its place released. nullptr: every place is serving a request.
  Place* take(const std::string& peer);
  // The connection waits for its next request (spare: until the complete head has arrived).
  void waits(Place& place) { place.waiting_since = ++turns_; }
  // The connection serves a request.
  void serves(Place& place) { place.waiting_since = 0; }
  void release(Place& place);
  // In all places.
  std::vector<Connection*> connections() const;

  // Any thread.
  int count() const;
  bool wait_until_empty(Ms most);

 private:
  int count(bool spare, std::string_view peer = "") const;  // `peer`: "" = all
  bool make_room(bool spare, std::string_view peer);

  const int most_, most_of_one_address_;
  std::uint64_t turns_ = 0;
  std::list<Place> places_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  int count_ = 0;  // of places_; guarded by mutex_
};

using api::Request;
using api::Response;

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                       // 0 = any
  std::string cert, key;              // both: TLS
  std::size_t most_body = 16u << 20;  // maximum bytes of a request's body
  // Each may have a worker thread. For a further one, the connection that has waited longest for a request is
  // closed. If none is waiting, it gets a spare place, and its Request is `spare`.
  int connections = 64;
  int connections_per_address = 0;       // of them; 0 = three quarters
  Ms timeout{std::chrono::seconds{10}};  // to receive a request, and to send its response
  Ms idle{std::chrono::seconds{60}};     // between two requests
  bool beyond_this_machine = false;      // allows an address that other machines can reach

  int connections_of_one_address() const {
    const int share = connections_per_address > 0 ? connections_per_address : connections * 3 / 4;
    return share < 1 ? 1 : share > connections ? connections : share;
  }
};

class Server {
 public:
  // `texts`: the budget of all bodies; the response's share of it is its `memory`.
  using Work = std::function<Response(Budget& texts)>;
  // Called when the head has arrived. The work is done when the body is there too, and the request stays
  // where it is until then; a problem that it throws ends the request before its body is read.
  using Admit = std::function<Work(const Request&)>;

  // Error: the address, the certificate.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Admit admit);
  virtual ~Server() = default;  // REQUIRES: stop() has returned true

  // Reads certificate and key again, for connections accepted from now on. Error: as load_tls().
  virtual Result<void> reload_certificate() = 0;
  virtual int port() const = 0;
  virtual int connections() const = 0;
  // Accepts no new connection; each existing one ends with the response to its current request.
  virtual void drain() = 0;
  // Ends all connections; false if one was still busy after `most`.
  virtual bool stop(Ms most) = 0;
};

}  // namespace rung::http
