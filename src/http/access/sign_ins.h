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

#include "src/core/base/clock.h"
#include "src/core/message/digest.h"
#include "src/http/request/message.h"

namespace rung::http {

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
  explicit SignIns(const Clock& clock) : clock_(clock) {}

  // The cookie's value, which nobody can guess.
  std::string open(std::string token);
  std::optional<SignIn> find(std::string_view cookie);
  void close(std::string_view cookie);

  // The header Set-Cookie. `cookie`: "" = deletes it.
  static std::string set_cookie(std::string_view cookie, bool tls);

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

// None: a change that a page of ours made, or no change. Else the response that refuses it: a page of another
// site may have sent it.
std::optional<Response> refuse_other_site(const Request& request, const SignIns::SignIn& sign_in);
// In constant time.
bool same_secret(std::string_view a, std::string_view b);
// The browser says that the request comes from another site.
bool is_cross_site(const Request& request);

}  // namespace rung::http
