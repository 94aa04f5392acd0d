// An identity provider: its discovery document (OpenID Connect Discovery 1.0) names the address of its JWKS
// document and where people sign in, and its tokens say whom they are for, until when, and who their bearer
// is. discover() blocks as its client does.
//
// Both documents are fetched by a thread of their own: at the start, then every few minutes,
// and when a token names a key that is not among them. While the provider does not answer, or with
// what is no list of keys, the last keys stay valid for a day.
//
// A person signs in with a browser by the authorization code flow, with PKCE (RFC 7636): begin_login() says
// where the provider's page is, end_login() exchanges the code that the browser brings back. What was begun
// and not ended is kept for ten minutes, and bounded.
// Thread: any; the destructor one. end_login() may block on the network, within the limits of
// client_options().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "src/core/base/time.h"
#include "src/core/rules/people.h"
#include "src/net/http_client.h"
#include "src/oidc/key_set.h"

namespace rung::oidc {

// Where both documents of `issuer` are: "https://id.example.com/.well-known/openid-configuration".
std::string discovery_url(const std::string& issuer);

// Bounded in time and size, for any URL.
net::HttpClientOptions client_options(const std::string& ca);

// What an identity provider says of itself.
struct Discovered {
  KeySetPtr keys;
  // Where people sign in; "" = it names none that may be used.
  std::string authorization_endpoint, token_endpoint;
};
// Error: which document, and what is wrong with it. Transient: the provider may answer later;
// not_found: it has answered, and none of its keys is of use.
Result<Discovered> discover(const OidcOptions& options, net::HttpClient& client);

// `payload`: of a token whose signature is valid.
tl::expected<Person, Refusal> bearer_of(std::string_view payload, const OidcOptions& options, EpochMs now);

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

  // Who the bearer of a token is: keys, signature, claims and the config's map together. Never blocks on the
  // network.
  tl::expected<Person, Refusal> person_of(std::string_view token);
  // From the next request on: `clients` and `map` of these options. No issuer: sign-in is off.
  // False: nothing was changed, because they are for tokens of another issuer, audience or claim, whose
  // groups mean something else.
  bool replace_grants(const OidcOptions& loaded);

  static constexpr std::size_t kMostLogins = 1000;  // under way; the oldest makes room
  static constexpr Ms kLongestLogin{std::chrono::minutes{10}};
  struct Begun {
    std::string url;    // the provider's page
    std::string state;  // secret: for a cookie of the browser that began
  };
  // `redirect`: the URL that the provider sends the browser back to. `to`: where it goes in the end. Error:
  // the provider has not answered yet, or its discovery document is wrong.
  Result<Begun> begin_login(const std::string& redirect, const std::string& to);
  struct Ended {
    std::string token;  // the ID token; nobody has checked it
    std::string to;
  };
  // Once for each state. Error: not_found: nobody began that; else what the provider answers.
  Result<Ended> end_login(std::string_view state, const std::string& code);

  // As it was last discovered; keys nullptr: not yet, or not for a day.
  Discovered discovered() const;
  // Fetches it soon; false: not now, it has just been fetched.
  bool ask_for_refresh();

  KeyCounts counts() const;

 private:
  struct Login {
    std::string verifier, endpoint, redirect, to;  // endpoint: where its code is exchanged
    BootMs began{0};
  };
  std::optional<Login> take_login(std::string_view state);

  void run();
  void take(Result<Discovered> fetched);
  void report(const Result<Discovered>& fetched);

  const OidcOptions options_;
  const Clock& clock_;
  const OnProblem on_problem_;
  const ProviderLimits limits_;
  net::HttpClient client_;              // the thread's, but for interrupt()
  std::optional<std::string> problem_;  // the thread's; nullopt = nothing fetched yet
  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  // Guarded by mutex_.
  Discovered discovered_;
  BootMs confirmed_{0};          // when the provider last answered with it
  std::optional<BootMs> tried_;  // the end of the last fetch
  bool wanted_ = true;           // a fetch is under way, or asked for
  bool stopping_ = false;
  KeyCounts counts_;                                  // without `valid`
  std::shared_ptr<const OidcOptions> grants_;         // `clients` and `map`; nullptr = sign-in is off
  std::map<std::string, Login, std::less<>> logins_;  // by state
  std::thread thread_;                                // last: starts when everything else is there
};

}  // namespace rung::oidc
