// Access control: tokens, what their roles and queues allow; and, without tokens, protection against
// cross-site requests from a browser.
// Thread: any.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "src/api/base/message.h"
#include "src/api/base/rights.h"
#include "src/core/rules/people.h"
#include "src/core/task/task.h"
#include "src/http/access/sign_ins.h"
#include "src/oidc/key_set.h"

namespace rung::http {

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

  // Who asks, if the token may do that; else the response that refuses the request.
  tl::expected<Person, Response> admit(const Request& request, Action action) const;
  // The same, whatever it may do. REQUIRES: needs_token().
  tl::expected<Person, Response> identify(const Request& request) const { return bearer(*valid(), request); }
  // Everybody, where no token is needed.
  static Person open_person();

 private:
  using Valid = std::shared_ptr<const std::vector<PersonToken>>;
  static Valid by_digest(const Tokens& tokens);
  Valid valid() const {
    const std::lock_guard lock(mutex_);
    return valid_;
  }

  // Who bears it, whoever issued it.
  tl::expected<Person, Response> bearer(const std::vector<PersonToken>& all, const Request& request) const;

  const SignIn sign_in_;
  SignIns* const sign_ins_;
  mutable std::mutex mutex_;
  Valid valid_;  // guarded by mutex_
};

// "alice, 10.0.0.3 (http)", "alice, 10.0.0.3 (http, oidc sub 7f3c)", "token full, 10.0.0.3 (http)": for the
// audit.
std::string who_asks(const Person& person, const Request& request);

// Without tokens: a web page in a browser on this machine could reach the port, by DNS rebinding or by a
// cross-origin request.
std::optional<Response> refuse_foreign_page(const Request& request);

// "http://127.0.0.1:8025" -> "127.0.0.1:8025".
std::string_view host_of_origin(std::string_view origin);

// "127.0.0.1:8025", "localhost", "[::1]:8025": names of this machine that nobody else's DNS can answer for.
bool is_loopback_host(std::string_view host_header);

}  // namespace rung::http
