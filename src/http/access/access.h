// Who asks: tokens, browsers that have signed in; and, without tokens, protection against cross-site requests
// from a browser. Thread: any.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "src/api/base/context.h"
#include "src/api/base/message.h"
#include "src/core/base/time.h"
#include "src/core/message/identity.h"
#include "src/core/rules/people.h"
#include "src/core/task/task.h"
#include "src/oidc/key_set.h"

namespace rung::http {

using api::Problem;
using api::Request;

// The cookies of a browser: names and attributes as OWASP's session management cheat sheet asks. Immutable.
class Cookies {
 public:
  static constexpr std::string_view kSession = "session";
  // The state of a login at the identity provider, so that a forged link cannot complete one.
  static constexpr std::string_view kLogin = "login";

  // `url`: where browsers reach this API; "" = by the Host of their requests. `tls`: they speak TLS with it.
  explicit Cookies(std::string url = "", bool tls = false);

  // Its value in the request; "" = it is not there.
  std::string get(std::string_view cookie, const Request& request) const;
  // The header Set-Cookie. `value`: "" = deletes it.
  std::string set(std::string_view cookie, std::string_view value, const Request& request) const;
  // Says Sec-Fetch-Site, or Origin where a browser sends no other (plain HTTP, old browsers).
  bool from_other_site(const Request& request) const;
  // Below which a proxy has this API: "/rung"; "" = nothing.
  std::string path() const { return url_.substr(origin_.size()); }

 private:
  // This process speaks plain HTTP, and the browser is on its machine: the proxy's TLS and path are not
  // between.
  bool is_direct(const Request& request) const;
  std::string name_of(std::string_view cookie, const Request& request) const;

  const std::string url_, origin_;
  const bool tls_, secure_;
};

// Browsers that have signed in: a cookie stands for the token that was given once, and a second value proves
// that a page of ours made the request. Kept in memory: a restart signs everybody out. A token that is
// withdrawn, or whose time is over, is refused as it would be without a cookie.
class SignIns {
 public:
  static constexpr std::size_t kMost = 1000;  // the one unused for the longest time makes room
  static constexpr std::size_t kMostOfToken = 50;
  static constexpr Ms kIdle{std::chrono::hours{8}};
  static constexpr Ms kLongest{std::chrono::hours{24}};

  struct SignIn {
    std::string token;  // secret
    std::string csrf;   // what the header X-Rung-CSRF of a change must have
  };

  // REQUIRES: `clock` outlives it.
  explicit SignIns(const Clock& clock, Cookies of = Cookies{}) : cookies(std::move(of)), clock_(clock) {}

  const Cookies cookies;

  // The cookie's value: random, 256 bits.
  std::string open(std::string token);
  std::optional<SignIn> find(std::string_view cookie);
  void close(std::string_view cookie);

  // Throws a 403 if a page of another site may have made the request.
  void refuse_other_site(const Request& request) const;
  // The same for one with the cookie of this sign-in: a change also needs its `csrf`.
  void refuse_other_site(const Request& request, const SignIn& sign_in) const;

 private:
  struct Entry {
    SignIn sign_in;
    BootMs began{0}, used{0};
  };
  bool is_over(const Entry& entry) const;
  // Of the sign-ins with this token, or of all: "".
  void make_room(std::string_view token);

  const Clock& clock_;
  std::mutex mutex_;
  std::map<Sha256, Entry> entries_;  // by the digest of the cookie; guarded by mutex_
};

// In constant time.
bool same_secret(std::string_view a, std::string_view b);
// The browser says that the request comes from another site.
bool is_cross_site(const Request& request);

using api::Action;

// All that are valid now: several while a token is changed. None at all: everybody who reaches the port may
// do everything; the config allows that only on a loopback address.
struct Tokens {
  std::vector<std::string> full, read;  // http.token_file, http.read_token_file
  std::vector<PersonToken> people;      // http.tokens_file
  bool empty() const { return full.empty() && read.empty() && people.empty(); }
};

// Who the bearer of a token of the identity provider is (http.oidc). Must not block.
using SignIn = std::function<tl::expected<Person, oidc::Refusal>(std::string_view token)>;

// Tokens, and what their roles and queues allow.
class Access {
 public:
  // `sign_in`: empty = tokens of this config alone. `sign_ins`: nullptr = no cookies; else it outlives this.
  explicit Access(const Tokens& tokens, SignIn sign_in = {}, SignIns* sign_ins = nullptr)
      : sign_in_(std::move(sign_in)), sign_ins_(sign_ins), valid_(by_digest(tokens)) {}
  bool needs_token() const { return signs_in() || !valid()->empty(); }
  bool signs_in() const { return sign_in_ != nullptr; }
  bool has_tokens() const { return !valid()->empty(); }
  // From the next request on; what is removed is invalid then.
  void replace(const Tokens& tokens) {
    auto fresh = by_digest(tokens);
    const std::lock_guard lock(mutex_);
    valid_.swap(fresh);
  }

  // Who asks, if the token may do that. Throws the problem (401, 403, 503), here and below.
  Person admit(const Request& request, Action action) const;
  // The same, whatever it may do. REQUIRES: needs_token().
  Person identify(const Request& request) const;
  // Who bears this token, whoever issued it.
  Person bearer(const std::string& token) const;
  // Everybody, where no token is needed.
  static Person open_person();

 private:
  using Valid = std::shared_ptr<const std::vector<PersonToken>>;
  static Valid by_digest(const Tokens& tokens);
  Valid valid() const {
    const std::lock_guard lock(mutex_);
    return valid_;
  }

  const SignIn sign_in_;
  SignIns* const sign_ins_;
  mutable std::mutex mutex_;
  Valid valid_;  // guarded by mutex_
};

// "alice, 10.0.0.3 (http)", "alice, 10.0.0.3 (http, oidc sub 7f3c)", "token full, 10.0.0.3 (http)": for the
// audit.
std::string who_asks(const Person& person, const Request& request);

// Without tokens: a web page in a browser on this machine could reach the port, by DNS rebinding or by a
// cross-origin request. Throws a 403 then.
void refuse_foreign_page(const Request& request);

// "http://127.0.0.1:8025" -> "127.0.0.1:8025".
std::string_view host_of_origin(std::string_view origin);

// "127.0.0.1:8025", "localhost", "[::1]:8025": names of this machine that nobody else's DNS can answer for.
bool is_loopback_host(std::string_view host_header);

}  // namespace rung::http
