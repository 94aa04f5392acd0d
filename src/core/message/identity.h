// Which message a message is. Two messages are the same if their digests are equal: they cover body,
// properties and application headers. The order of headers does not count, because brokers change it; a
// header's type does. What describes a failure or a delivery is no part of a message: headers of Rung, of the
// broker, and of a framework (error queues) are removed before.
//
// A task carries the digest of its message, and the retry-token of each delivery carries it too. So a failure
// that names a task proves that it is the failure of that very message: consumers copy received headers into
// messages that they publish next.
//
// Thread: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/core/base/hex.h"  // IWYU pragma: export
#include "src/core/base/ids.h"
#include "src/core/message/message.h"

namespace rung {

// Bytes. The first half covers body and message-id, the second half all else.
inline constexpr std::size_t kMessageDigestBytes = 16;

// REQUIRES: the message as it is published again (strip() in headers.h).
std::string message_digest(const Message& stripped);

// False if the body or the message-id differs from that of the message with the digest. It hashes no headers:
// each publish of a stored message asks it.
bool has_body_of(const Message& message, std::string_view digest);

enum class Likeness : std::uint8_t {
  same,     // nothing differs
  changed,  // the same body and message-id; other properties or headers
  other,    // another body or message-id
};
// REQUIRES: two digests by message_digest().
Likeness likeness_of(std::string_view digest, std::string_view other);

// --- SHA-256, hexadecimal text, and keys made of facts. For what every instance must compute alike, today
// and in the next version: intake keys, submission keys, ids of traces. Any thread.

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(std::string_view data);

// The first `count` bytes of the digest.
std::string to_hex(const Sha256& digest, std::size_t count = 32);

// The fields of a key, with their lengths: different lists of fields never give the same facts.
std::string facts_of(std::initializer_list<std::string_view> fields);
// The first 16 bytes of the digest of all fields.
std::string key_of_facts(std::string_view facts);

// --- the header retry-token: proves that a result or a failure comes from a consumer that had the delivery.
// It is "ATTEMPT-DIGEST-PUBLISH-MAC": the digest of the delivered message as 32 hex digits, the number of the
// publish (Task::version after the claim, which each claim raises), and 128 bits of HMAC-SHA256 over retry-id
// and these three, under a key that all instances share. No row stores it, and publishing reads nothing for
// it.

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

  // `digest`: of the delivered message, its bytes.
  std::string token(TaskId id, int attempt, std::string_view digest, std::uint32_t publish) const;
  // In constant time. `attempt`: 0 = not given, use the token's own.
  bool proves(std::string_view token, TaskId id, int attempt) const;

 private:
  explicit DeliveryTokens(std::string key) : key_(std::move(key)) {}
  // `said`: the token without it.
  std::string mac(TaskId id, std::string_view said) const;
  std::string key_;  // its bytes
};

// The attempt in a token; 0 if it is not a token.
int attempt_of_token(std::string_view token);
// The number of the publish in a token; 0 if it is not a token.
std::uint32_t publish_of_token(std::string_view token);

}  // namespace rung
