#include "src/http/places.h"

#include <sys/socket.h>

#include <algorithm>

namespace rung::http {
namespace {

constexpr Ms kRoomWithin{1000};  // for the end of a connection that was ended for a new one

}  // namespace

Places::Place* Places::take(int fd, std::string peer) {
  std::unique_lock lock(mutex_);
  for (const bool spare : {false, true}) {
    if (!make_room(lock, spare, peer)) continue;
    Place& place = places_.emplace_back(fd, std::move(peer), spare);
    place.waiting_since = clock_.boot();
    return &place;
  }
  return nullptr;
}

int Places::count(bool spare, std::string_view peer) const {
  return static_cast<int>(std::ranges::count_if(
      places_, [&](const Place& p) { return p.spare == spare && (peer.empty() || p.peer == peer); }));
}

bool Places::has_room(bool spare, std::string_view peer) const {
  return count(spare) < (spare ? kSpare : most_) &&
         count(spare, peer) < (spare ? kSpareOfOneAddress : most_of_one_address_);
}

bool Places::make_room(std::unique_lock<std::mutex>& lock, bool spare, std::string_view peer) {
  if (has_room(spare, peer)) return true;
  // An address that has its share gives up one of its own.
  const bool own = count(spare, peer) >= (spare ? kSpareOfOneAddress : most_of_one_address_);
  Place* oldest = nullptr;
  for (Place& p : places_) {
    if (p.spare != spare || p.waiting_since.ms == 0 || p.unwanted || p.fd < 0 || (own && p.peer != peer))
      continue;
    if (oldest == nullptr || p.waiting_since < oldest->waiting_since) oldest = &p;
  }
  if (oldest == nullptr) return false;
  oldest->unwanted = true;
  shutdown(oldest->fd, SHUT_RDWR);
  return released_.wait_for(lock, kRoomWithin, [&] { return has_room(spare, peer); });
}

void Places::waits(Place& place) {
  const std::lock_guard lock(mutex_);
  place.waiting_since = clock_.boot();
}

bool Places::serves(Place& place) {
  const std::lock_guard lock(mutex_);
  place.waiting_since = {0};
  return !place.unwanted;
}

void Places::forget_file(Place& place) {
  const std::lock_guard lock(mutex_);
  place.fd = -1;
}

void Places::release(Place& place) {
  const std::lock_guard lock(mutex_);
  places_.remove_if([&](const Place& p) { return &p == &place; });
  released_.notify_all();
}

int Places::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(places_.size());
}

bool Places::wait_until_empty(Ms most) {
  std::unique_lock lock(mutex_);
  return released_.wait_for(lock, most, [&] { return places_.empty(); });
}

void Places::shut_all() {
  const std::lock_guard lock(mutex_);
  for (const Place& p : places_) {
    if (p.fd >= 0) shutdown(p.fd, SHUT_RDWR);
  }
}

}  // namespace rung::http
