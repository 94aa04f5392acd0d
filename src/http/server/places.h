// Decides which connections are served. A regular place serves every request. When all regular places are
// taken, or one address has used up its share, a new connection gets a spare place: it serves one request,
// and only for health probes. A connection that waits for a request loses its place to a newer one, so that
// half-sent requests can't lock out a probe.
// Thread: one, except count() and wait_until_empty().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/time.h"

namespace rung::http {

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
  bool has_room(bool spare, std::string_view peer) const;
  bool make_room(bool spare, std::string_view peer);

  const int most_, most_of_one_address_;
  std::uint64_t turns_ = 0;
  std::list<Place> places_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  int count_ = 0;  // of places_; guarded by mutex_
};

}  // namespace rung::http
