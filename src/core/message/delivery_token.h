// The header retry-token: proves that a result or a failure comes from a consumer that had the delivery. It
// is "ATTEMPT-DIGEST-PUBLISH-MAC": the digest of the delivered message (identity.h) as 32 hex digits, the
// number of the publish (Task::version after the claim, which each claim raises), and 128 bits of HMAC-SHA256
// over retry-id and these three, under a key that all instances share. No row stores it, and publishing reads
// nothing for it. Thread: call const functions of DeliveryTokens on the owner's thread only (one OpenSSL
// context); the rest is pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/base/ids.h"

namespace rung {

// In the number of the publish: it is a copy of the parked message, which goes to <prefix>.parked or back to
// its error queue. The rest is the task's version.
inline constexpr std::uint32_t kParkedCopy = 1U << 31U;
inline bool is_parked_copy(std::uint32_t publish) { return (publish & kParkedCopy) != 0; }

class DeliveryTokens {
 public:
  // `key`: 32 bytes as 64 hex digits. None for anything else.
  static std::optional<DeliveryTokens> from_hex(std::string_view key);
  // A new random key, in the form from_hex() accepts.
  static std::string new_key();

  ~DeliveryTokens();
  DeliveryTokens(DeliveryTokens&&) noexcept;
  DeliveryTokens& operator=(DeliveryTokens&&) noexcept;

  // `digest`: of the delivered message, its bytes.
  std::string token(TaskId id, int attempt, std::string_view digest, std::uint32_t publish) const;
  // In constant time. `attempt`: 0 = not given, use the token's own.
  bool proves(std::string_view token, TaskId id, int attempt) const;

 private:
  struct Context;
  explicit DeliveryTokens(std::unique_ptr<Context> context);
  // `said`: the token without it.
  std::string mac(TaskId id, std::string_view said) const;
  std::unique_ptr<Context> context_;
};

// The attempt in a token; 0 if it is not a token.
int attempt_of_token(std::string_view token);
// The number of the publish in a token; 0 if it is not a token.
std::uint32_t publish_of_token(std::string_view token);

}  // namespace rung
