// One service at several addresses: in which order they are tried, how long each may take, and which one
// serves. The broker's connections and the database's share it: all connections of a process to one service
// learn from each other.
//
// Thread: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/core/clock.h"
#include "src/core/result.h"
#include "src/core/url.h"

namespace rung {

struct Address {
  Url url;                // as the config has it, with credentials of its own
  std::string ip;         // one that its host stands for; "" = whoever connects looks it up
  std::string shown;      // "host:port"; also the ip, where a name stands for several. No secret
  std::size_t place = 0;  // among all, as they are listed
  bool alone = false;     // there is no other
};

class Addresses {
 public:
  using Stopping = std::function<bool()>;
  // The service answers at another address than before, or for the first time. `passed_over`: what was tried
  // before it, and why it did not serve; "" = nothing.
  using Told = std::function<void(const std::string& address, const std::string& passed_over)>;

  // shuffled: equal nodes of a cluster, by a dice of the process, so that not all clients meet at the first;
  // those that have failed last of all.
  // listed: as the config has it. Where more than one would serve (writers, though only one may be written
  // to), all processes choose the same.
  enum class Order : std::uint8_t { shuffled, listed };

  // REQUIRES: urls is not empty; `clock` outlives it.
  Addresses(std::vector<Url> urls, int usual_port, Order order, const Clock& clock,
            std::uint32_t seed = std::random_device{}());
  void on_change(Told told) { told_ = std::move(told); }  // before the first connection

  const Clock& clock() const { return clock_; }       // that its deadlines are told by
  const Url& first() const { return urls_.front(); }  // for what all have in common: the path
  const std::vector<Url>& urls() const { return urls_; }

  struct Found {
    std::vector<Address> all;
    std::vector<Error> missing;  // of hosts that could not be looked up
  };
  // Every address of every host; `names`: hosts stay names.
  Found find(BootMs deadline, const Stopping& stopping, bool names = false) const;
  // The one that serves first, then the others.
  std::vector<Address> in_order(std::vector<Address> all) const;
  // How long this one may take, where there are others: a silent server must not use up the others' time.
  Ms time_for(const Address& address) const;

  void serves(const Address& address, const std::string& passed_over = {});
  void failed(const Address& address, bool answered = true);
  // It used up `given`, and no other served: it may be slow rather than dead, and gets twice as much from now
  // on. Nothing happens where it has more by now: others found the same.
  void was_silent(const Address& address, Ms given);
  // Whether it has failed, and another address has taken its place since.
  bool left(const Address& address) const;

  // Tries one after another until one serves. `attempt(address, until)` -> Result<T>. `alone`: the time of an
  // address that has no other beside it.
  template <typename Attempt>
  auto connect(Ms alone, const Stopping& stopping, const Attempt& attempt, bool names = false)
      -> decltype(attempt(Address{}, BootMs{}));

  static constexpr Ms kSlice{2000}, kLongestSlice{8000};

 private:
  struct Failures {
    std::uint64_t last = 0;  // counts up with each failure of any
    int silent = 0;          // rounds in a row in which none served
  };
  static std::string key_of(const Address& address);
  static Ms slice_after(int silent);
  // `errors` by place: the same words, in whatever order they were tried.
  static Error together(const std::map<std::size_t, Error>& errors, const std::vector<Error>& missing);

  const std::vector<Url> urls_;
  const int usual_port_;
  const Order order_;
  const Clock& clock_;
  const std::uint32_t seed_;
  Told told_;
  mutable std::mutex mutex_;
  std::string serving_;                       // key; "" = none. Guarded by mutex_
  std::string told_of_;                       // key; guarded by mutex_
  std::map<std::string, Failures> failures_;  // by key, since each served last; guarded by mutex_
  std::uint64_t count_ = 0;                   // guarded by mutex_
};

template <typename Attempt>
auto Addresses::connect(Ms alone, const Stopping& stopping, const Attempt& attempt, bool names)
    -> decltype(attempt(Address{}, BootMs{})) {
  const bool several = urls_.size() > 1;
  Found found = find(clock_.boot() + (several ? std::min(alone, kSlice) : alone), stopping, names);
  // Not one name is known yet: a name server that is away costs the resolver 5 s.
  if (found.all.empty() && several && alone > kSlice)
    found = find(clock_.boot() + alone - kSlice, stopping, names);
  std::map<std::size_t, Error> errors;
  std::vector<std::pair<Address, Ms>> silent;
  for (const Address& address : in_order(found.all)) {
    if (stopping && stopping()) return transient("stopping");
    const Ms slice = time_for(address);
    const BootMs until = clock_.boot() + (address.alone ? alone : std::min(alone, slice));
    auto got = attempt(address, until);
    if (got) {
      serves(address, together(errors, found.missing).message);
      return got;
    }
    if (stopping && stopping()) return got;
    const bool answered = clock_.boot() < until;
    failed(address, answered);
    if (!answered) silent.emplace_back(address, slice);
    errors.emplace(address.place, got.error());
  }
  for (const auto& [address, given] : silent) was_silent(address, given);
  return tl::unexpected(together(errors, found.missing));
}

}  // namespace rung
