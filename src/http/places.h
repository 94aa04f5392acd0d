// Which connections are served. A regular place serves every request. When all regular places are taken, or
// one address has its share of them, a new connection gets a spare place: it serves one request, and only
// what health probes ask for. A connection that waits for a request gives its place up to a newer one, so
// that half-sent requests can't keep a probe out. Thread: any.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

#include "src/core/clock.h"

namespace rung::http {

class Places {
 public:
  static constexpr int kSpare = 16;
  static constexpr int kSpareOfOneAddress = kSpare / 2;

  struct Place {
    Place(int f, std::string p, bool s) : fd(f), peer(std::move(p)), spare(s) {}
    int fd;  // -1: closed. Guarded by the mutex for all but the connection's own thread
    const std::string peer;
    const bool spare;
    BootMs waiting_since{0};  // guarded by the mutex; 0 = a request is being served
    bool unwanted = false;    // guarded by the mutex; ended for another connection
  };

  // `most`: regular places; `most_of_one_address`: of them, for one address.
  // REQUIRES: `clock` outlives it.
  Places(int most, int most_of_one_address, const Clock& clock)
      : most_(most), most_of_one_address_(most_of_one_address), clock_(clock) {}

  // A place for a new connection. Where none is free, it ends the connection that has waited longest for its
  // request, and waits up to a second for its end. nullptr: each place serves a request.
  Place* take(int fd, std::string peer);
  // It waits for its next request (spare: until all of the head is there).
  void waits(Place& place);
  // It serves a request. false: it was ended meanwhile; what has just arrived there is not begun.
  bool serves(Place& place);
  // Before its file is closed, whose number then can be another's.
  void forget_file(Place& place);
  void release(Place& place);

  int count() const;
  bool wait_until_empty(Ms most);
  void shut_all();

 private:
  // With the mutex held. `peer`: "" = all.
  int count(bool spare, std::string_view peer = "") const;
  bool has_room(bool spare, std::string_view peer) const;
  bool make_room(std::unique_lock<std::mutex>& lock, bool spare, std::string_view peer);

  const int most_, most_of_one_address_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::list<Place> places_;  // guarded by mutex_
};

}  // namespace rung::http
