// Access control: tokens; and, without tokens, protection against cross-site requests from a browser.
// Thread: immutable after construction.
#pragma once

#include <optional>
#include <string>

#include "src/http/message.h"

namespace rung::http {

class Access {
 public:
  // "" = no such token. Without `full`, everybody who reaches the port may do everything: the config allows
  // that only on a loopback address.
  Access(std::string full, std::string read) : full_(std::move(full)), read_(std::move(read)) {}

  // The response that refuses the request; none if it is allowed. `writes`: the request changes something.
  std::optional<Response> refuse(const Request& request, bool writes) const;
  // "token full, 10.0.0.3 (http)": for the audit. REQUIRES: the request was not refused.
  std::string who(const Request& request) const;

 private:
  enum class Kind { none, unknown, read, full };
  Kind kind_of(const Request& request) const;

  const std::string full_, read_;
};

// Compares in constant time.
bool same_secret(const std::string& a, const std::string& b);

// "127.0.0.1:8025", "localhost", "[::1]:8025": names of this machine that nobody else's DNS can answer for.
bool is_loopback_host(std::string_view host_header);

}  // namespace rung::http
