// Who may do what: tokens, and what a browser could be led to do where there is none.
// Thread: immutable after construction.
#pragma once

#include <optional>
#include <string>

#include "src/http/message.h"

namespace rung::http {

class Access {
 public:
  // "" = there is no such token. Without `full` everybody who reaches the port may do everything: the config
  // allows that on a loopback address alone.
  Access(std::string full, std::string read) : full_(std::move(full)), read_(std::move(read)) {}

  // The answer that refuses it; none where it may pass. `writes`: it changes something.
  std::optional<Response> refuse(const Request& request, bool writes) const;
  // "token full, 10.0.0.3 (http)": for the audit. REQUIRES: it was not refused.
  std::string who(const Request& request) const;

 private:
  enum class Kind { none, unknown, read, full };
  Kind kind_of(const Request& request) const;

  const std::string full_, read_;
};

// In a time that doesn't tell how much of them is alike.
bool same_secret(const std::string& a, const std::string& b);

// "127.0.0.1:8025", "localhost", "[::1]:8025": names of this machine that nobody else's DNS can answer for.
bool is_loopback_host(std::string_view host_header);

}  // namespace rung::http
