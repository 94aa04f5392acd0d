// SHA-256, hexadecimal text, and keys made of facts. For what every instance must compute alike, today and in
// the next version: intake keys, submission keys, ids of traces. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/base/hex.h"  // IWYU pragma: export

namespace rung {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(std::string_view data);

// The first `count` bytes of the digest.
std::string to_hex(const Sha256& digest, std::size_t count = 32);

// A field of a key, with its length: different lists of fields never give the same facts.
void append_field(std::string& facts, std::string_view field);
// The same for a body: its digest.
void append_digest(std::string& facts, std::string_view body);
// The first 16 bytes of the digest of all fields.
std::string key_of_facts(std::string_view facts);

}  // namespace rung
