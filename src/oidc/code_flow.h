// How a person signs in with a browser: the authorization code flow of OpenID Connect, with PKCE (RFC 7636).
// begin() says where the provider's page is, end() exchanges the code that the browser brings back.
// Thread: any; end() may block on the network, within the limits of get_options(). What was begun and not
// ended is kept for ten minutes, and bounded.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/oidc/provider.h"

namespace rung::oidc {

// Sends a form to a URL.
using Post = std::function<net::HttpReply(const std::string& url, const std::string& form)>;

class CodeFlow {
 public:
  static constexpr std::size_t kMost = 1000;  // logins under way; the oldest makes room
  static constexpr Ms kLongest{std::chrono::minutes{10}};

  // `discovered`: Provider::discovered(). An empty `post`: over the network. REQUIRES: `clock` outlives it.
  CodeFlow(OidcOptions options, const Clock& clock, std::function<Discovered()> discovered, Post post = {});

  struct Begun {
    std::string url;    // the provider's page
    std::string state;  // secret: for a cookie of the browser that began
  };
  // `redirect`: the URL that the provider sends the browser back to. `to`: where it goes in the end. Error:
  // the provider has not answered yet, or its discovery document is wrong.
  Result<Begun> begin(const std::string& redirect, const std::string& to);

  struct Ended {
    std::string token;  // the ID token; nobody has checked it
    std::string to;
  };
  // Once for each state. Error: not_found: nobody began that; else what the provider answers.
  Result<Ended> end(std::string_view state, const std::string& code);

 private:
  struct Login {
    std::string verifier, endpoint, redirect, to;  // endpoint: where its code is exchanged
    BootMs began{0};
  };
  std::optional<Login> take(std::string_view state);

  const OidcOptions options_;
  const Clock& clock_;
  const std::function<Discovered()> discovered_;
  const Post post_;
  std::mutex mutex_;
  std::map<std::string, Login, std::less<>> logins_;  // by state; guarded by mutex_
};

}  // namespace rung::oidc
