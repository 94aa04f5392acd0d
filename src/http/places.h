// Which connections are served. A regular place serves every request. When all regular places are taken, or
// one address has its share of them, a new connection gets a spare place: it serves one request, and only
// what health probes ask for. A connection that waits for a request gives its place up to a newer one, so
// that half-sent requests can't keep a probe out.
// Thread: one, but for count() and wait_until_empty().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/time.h"

namespace rung::http {

class Places {
 public:
  static constexpr int kSpare = 16;
  static constexpr int kSpareOfOneAddress = kSpare / 2;

  class Connection {
   public:
    virtual ~Connection() = default;
    virtual void evict() = 0;  // closes it: its place has been released, and another connection gets it
    virtual void drain() = 0;  // closes it unless a request is arriving or being served
    virtual void abort() = 0;  // closes it unless a request is being served
  };

  struct Place {
    const std::string peer;
    const bool spare;
    Connection* connection = nullptr;  // set by who took the place
    std::uint64_t waiting_since = 0;   // a number that grows; 0 = a request is being served
  };

  // `most`: regular places; `most_of_one_address`: of them, for one address.
  Places(int most, int most_of_one_address) : most_(most), most_of_one_address_(most_of_one_address) {}

  // A place for a new connection, which waits for its first request. Where none is free, the connection that
  // has waited longest is ended and its place released. nullptr: each place serves a request.
  Place* take(const std::string& peer);
  // It waits for its next request (spare: until all of the head is there).
  void waits(Place& place) { place.waiting_since = ++turns_; }
  // It serves a request.
  void serves(Place& place) { place.waiting_since = 0; }
  void release(Place& place);
  // Of all places.
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
