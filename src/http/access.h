// Access control: tokens; and, without tokens, protection against cross-site requests from a browser.
// Thread: any.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/http/message.h"

namespace rung::http {

// All that are valid now: several while a token is changed. Empty = no such token. Without `full`, everybody
// who reaches the port may do everything: the config allows that only on a loopback address.
struct Tokens {
  std::vector<std::string> full, read;
  bool empty() const { return full.empty() && read.empty(); }
};

class Access {
 public:
  explicit Access(Tokens tokens) : tokens_(std::make_shared<const Tokens>(std::move(tokens))) {}
  // From the next request on; what is removed is invalid then.
  void replace(Tokens tokens) {
    const auto fresh = std::make_shared<const Tokens>(std::move(tokens));
    const std::lock_guard lock(mutex_);
    tokens_ = fresh;
  }

  // The response that refuses the request; none if it is allowed. `writes`: the request changes something.
  std::optional<Response> refuse(const Request& request, bool writes) const;
  // "token full, 10.0.0.3 (http)": for the audit. REQUIRES: the request was not refused.
  std::string who(const Request& request) const;

 private:
  enum class Kind { none, unknown, read, full };
  static Kind kind_of(const Request& request, const Tokens& tokens);
  std::shared_ptr<const Tokens> tokens() const {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

  mutable std::mutex mutex_;
  std::shared_ptr<const Tokens> tokens_;  // guarded by mutex_
};

// Compares in constant time.
bool same_secret(const std::string& a, const std::string& b);

// "127.0.0.1:8025", "localhost", "[::1]:8025": names of this machine that nobody else's DNS can answer for.
bool is_loopback_host(std::string_view host_header);

}  // namespace rung::http
