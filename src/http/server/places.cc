#include "src/http/server/places.h"

#include <algorithm>

namespace rung::http {

Places::Place* Places::take(const std::string& peer) {
  for (const bool spare : {false, true}) {
    if (!make_room(spare, peer)) continue;
    Place& place = places_.emplace_back(Place{peer, spare});
    waits(place);
    const std::lock_guard lock(mutex_);
    ++count_;
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

bool Places::make_room(bool spare, std::string_view peer) {
  if (has_room(spare, peer)) return true;
  // An address that has used up its share gives up one of its own places.
  const bool own = count(spare, peer) >= (spare ? kSpareOfOneAddress : most_of_one_address_);
  Place* oldest = nullptr;
  for (Place& p : places_) {
    if (p.spare != spare || p.waiting_since == 0 || (own && p.peer != peer)) continue;
    if (oldest == nullptr || p.waiting_since < oldest->waiting_since) oldest = &p;
  }
  if (oldest == nullptr) return false;
  Connection* const connection = oldest->connection;
  release(*oldest);
  connection->evict();
  return true;
}

void Places::release(Place& place) {
  places_.remove_if([&](const Place& p) { return &p == &place; });
  const std::lock_guard lock(mutex_);
  --count_;
  released_.notify_all();
}

std::vector<Places::Connection*> Places::connections() const {
  std::vector<Connection*> all;
  for (const Place& p : places_) all.push_back(p.connection);
  return all;
}

int Places::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

bool Places::wait_until_empty(Ms most) {
  std::unique_lock lock(mutex_);
  return released_.wait_for(lock, most, [&] { return count_ == 0; });
}

}  // namespace rung::http
