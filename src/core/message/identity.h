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

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace rung
