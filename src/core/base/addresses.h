// One service with several addresses: the order in which they are tried, how long each attempt may take, and
// which address serves. Used for the broker and for the database. All connections of a process to one service
// share what they learn.
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

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/base/url.h"

namespace rung {

struct Address {
  Url url;                // as in the config, with its own credentials
  std::string ip;         // one that the host name resolves to; "" = the connecting code resolves it
  std::string shown;      // "host:port", with the ip where a name resolves to several. No secret
  std::size_t place = 0;  // position in the configured list
  bool alone = false;     // it is the only address
};

class Addresses {
 public:
  using Stopping = std::function<bool()>;
  // Called when the service answers at a different address, or for the first time. `passed_over`: the
  // addresses tried before it and why each failed; "" = none.
  using Told = std::function<void(const std::string& address, const std::string& passed_over)>;

  // shuffled: for equal nodes of a cluster. Each process shuffles with its own seed, so that clients spread
  // over the nodes; addresses that failed most recently come last.
  // listed: in the order of the config. Where several would serve (several accept writes, but only one may be
  // written to), all processes choose the same one.
  enum class Order : std::uint8_t { shuffled, listed };

  // REQUIRES: urls is not empty; `clock` outlives it.
  Addresses(std::vector<Url> urls, int usual_port, Order order, const Clock& clock,
            std::uint32_t seed = std::random_device{}());
  void on_change(Told told) { told_ = std::move(told); }  // call before the first connection

  const Clock& clock() const { return clock_; }       // measures the deadlines
  const Url& first() const { return urls_.front(); }  // for what all URLs share: the path
  const std::vector<Url>& urls() const { return urls_; }

  struct Found {
    std::vector<Address> all;
    std::vector<Error> missing;  // one for each host that could not be resolved
  };
  // Resolves every host to all its addresses; `names`: keeps the host names unresolved.
  Found find(BootMs deadline, const Stopping& stopping, bool names = false) const;
  // The address that serves first, then the others.
  std::vector<Address> in_order(std::vector<Address> all) const;
  // Time limit for one of several addresses: a silent server must not use up the time of the others.
  Ms slice() const;

  void serves(const Address& address, const std::string& passed_over = {});
  void failed(const Address& address);
  // No address served, and one used up `given`. It may be slow rather than dead, so the limit doubles until
  // one serves. No effect if it is higher already because another connection found the same.
  void was_silent(Ms given);
  // Whether it has failed and another address serves now.
  bool left(const Address& address) const;

  // Tries the addresses in turn until one serves. `attempt(address, until)` -> Result<T>. `alone`: the time
  // limit where there is only one address.
  template <typename Attempt>
  auto connect(Ms alone, const Stopping& stopping, const Attempt& attempt, bool names = false)
      -> decltype(attempt(Address{}, BootMs{}));

  static constexpr Ms kSlice{2000}, kLongestSlice{8000};

 private:
  static std::string key_of(const Address& address);
  // `errors` by place: the same text, whatever the order of the attempts.
  static Error together(const std::map<std::size_t, Error>& errors, const std::vector<Error>& missing);

  const std::vector<Url> urls_;
  const int usual_port_;
  const Order order_;
  const Clock& clock_;
  const std::uint32_t seed_;
  Told told_;
  mutable std::mutex mutex_;
  std::string serving_;  // key; "" = none. Guarded by mutex_
  std::string told_of_;  // key; guarded by mutex_
  // By key, since each last served: the number of its last failure. Guarded by mutex_.
  std::map<std::string, std::uint64_t> failures_;
  std::uint64_t count_ = 0;  // of failures; guarded by mutex_
  Ms slice_ = kSlice;        // guarded by mutex_
};

template <typename Attempt>
auto Addresses::connect(Ms alone, const Stopping& stopping, const Attempt& attempt, bool names)
    -> decltype(attempt(Address{}, BootMs{})) {
  const bool several = urls_.size() > 1;
  Found found = find(clock_.boot() + (several ? std::min(alone, kSlice) : alone), stopping, names);
  // No name is resolved yet: an unreachable name server costs the resolver 5 s.
  if (found.all.empty() && several && alone > kSlice)
    found = find(clock_.boot() + alone - kSlice, stopping, names);
  std::map<std::size_t, Error> errors;
  const Ms slice = this->slice();
  bool silent = false;
  for (const Address& address : in_order(found.all)) {
    if (stopping && stopping()) return transient("stopping");
    const BootMs until = clock_.boot() + (address.alone ? alone : std::min(alone, slice));
    auto got = attempt(address, until);
    if (got) {
      serves(address, together(errors, found.missing).message);
      return got;
    }
    if (stopping && stopping()) return got;
    silent = silent || clock_.boot() >= until;
    failed(address);
    errors.emplace(address.place, got.error());
  }
  if (silent) was_silent(slice);
  return tl::unexpected(together(errors, found.missing));
}

}  // namespace rung
