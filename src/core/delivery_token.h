// The header retry-token: proves that a result or a failure comes from whoever had the delivery. It is
// "ATTEMPT-" and 128 bits of HMAC-SHA256 over retry-id and attempt, under a key that all instances share: no
// row holds it, and publishing reads nothing. Thread: const functions of DeliveryTokens are the owner's
// thread's alone (one OpenSSL context); the rest is pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/ids.h"

namespace rung {

class DeliveryTokens {
 public:
  // `key`: 32 bytes as 64 hex digits. None where it is no such key.
  static std::optional<DeliveryTokens> from_hex(std::string_view key);
  // A new random key, as from_hex takes it.
  static std::string new_key();

  ~DeliveryTokens();
  DeliveryTokens(DeliveryTokens&&) noexcept;
  DeliveryTokens& operator=(DeliveryTokens&&) noexcept;

  std::string token(TaskId id, int attempt) const;
  // In constant time. `attempt`: 0 = not said, the token's own.
  bool proves(std::string_view token, TaskId id, int attempt) const;

 private:
  struct Context;
  explicit DeliveryTokens(std::unique_ptr<Context> context);
  std::unique_ptr<Context> context_;
};

// The attempt that a token speaks of; 0 where it is no token.
int attempt_of_token(std::string_view token);

}  // namespace rung
