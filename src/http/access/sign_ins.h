// Browsers that have signed in: a cookie stands for the token that was given once, and a second value proves
// that a page of ours made the request. Kept in memory: a restart signs everybody out. A token that is
// withdrawn, or whose time is over, is refused as it would be without a cookie.
// Thread: any.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/api/base/message.h"
#include "src/core/base/clock.h"
#include "src/core/message/identity.h"

namespace rung::http {

using api::problem;
using api::Request;
using api::Response;

// The cookies of a browser: names and attributes as OWASP's session management cheat sheet asks. Immutable.
class Cookies {
 public:
  static constexpr std::string_view kSession = "session";
  // Of a login at the identity provider that is under way: its state, so that nobody can be signed in by a
  // link.
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

  // The cookie's value, which nobody can guess.
  std::string open(std::string token);
  std::optional<SignIn> find(std::string_view cookie);
  void close(std::string_view cookie);

  // The response to a request that a page of another site may have made; none: one of ours did, or no
  // browser.
  std::optional<Response> refuse_other_site(const Request& request) const;
  // The same for one with the cookie of this sign-in: a change also needs its `csrf`.
  std::optional<Response> refuse_other_site(const Request& request, const SignIn& sign_in) const;

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

}  // namespace rung::http
