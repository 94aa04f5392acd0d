// The keys of an identity provider, fetched by a thread of their own: at the start, then every few minutes,
// and when a token names a key that is not among them. While the provider does not answer, or with
// what is no list of keys, the last keys stay valid for a day.
// Thread: any; the destructor one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "src/core/base/clock.h"
#include "src/oidc/claims.h"
#include "src/oidc/discovery.h"

namespace rung::oidc {

// Tests have their own.
struct ProviderLimits {
  Ms refresh{std::chrono::minutes{5}};
  Ms retry{std::chrono::seconds{10}};          // after a failure
  Ms between_asked{std::chrono::seconds{10}};  // strangers can ask, with tokens of unknown keys
  Ms oldest{std::chrono::hours{24}};           // keys that the provider has confirmed longer ago are not used
};

class Provider {
 public:
  // "" = the keys are there again. Called by the thread, when it changes.
  using OnProblem = std::function<void(const std::string& problem)>;

  // REQUIRES: `clock` outlives it.
  Provider(OidcOptions options, const Clock& clock, OnProblem on_problem, ProviderLimits limits = {});
  // Within a second, whatever the provider does.
  ~Provider();
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  // nullptr: none could be fetched yet, or for a day.
  KeySetPtr keys() const;
  // Fetches them soon; false: not now, they have just been fetched.
  bool ask_for_refresh();

  struct Counts {
    std::int64_t fetched = 0, failed = 0;  // since the start
    std::size_t keys = 0;                  // valid now
  };
  Counts counts() const;

 private:
  // What the thread and its callers share.
  struct State {
    KeySetPtr keys;
    BootMs confirmed{0};          // when the provider last answered with `keys`
    std::optional<BootMs> tried;  // the end of the last fetch
    bool fetching = true, asked = false, stopping = false;
    net::HttpClient* client = nullptr;  // of the call that is under way
    std::int64_t fetched = 0, failed = 0;
  };

  void run();
  net::HttpReply get(const std::string& url);
  void take(Result<KeySetPtr> fetched);
  void report(const Result<KeySetPtr>& fetched);
  KeySetPtr valid_keys() const;  // REQUIRES: mutex_ is held

  const OidcOptions options_;
  const Clock& clock_;
  const OnProblem on_problem_;
  const ProviderLimits limits_;
  std::optional<std::string> problem_;  // the thread's; nullopt = nothing fetched yet
  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  State state_;         // guarded by mutex_
  std::thread thread_;  // last: starts when everything else is there
};

// Who the bearer of a token is: keys, signature, claims and the config's map together.
// Thread: any; never blocks on the network.
class Verifier {
 public:
  // REQUIRES: provider and clock outlive it.
  Verifier(OidcOptions options, Provider& provider, const Clock& clock);

  tl::expected<Person, Refusal> person_of(std::string_view token) const;
  // From the next request on: `clients` and `map` of these options. No issuer: nobody signs in any more.
  // False: nothing was changed, because they are for tokens of another issuer, audience or claim, whose
  // groups mean something else.
  bool replace_grants(const OidcOptions& loaded);

 private:
  using Options = std::shared_ptr<const OidcOptions>;
  Options options() const {
    const std::lock_guard lock(mutex_);
    return options_;
  }

  Provider& provider_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  const Options first_;
  Options options_;  // guarded by mutex_; nullptr = nobody signs in
};

}  // namespace rung::oidc
