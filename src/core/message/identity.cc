#include "src/core/message/identity.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <variant>
#include <vector>

namespace rung {
namespace {

constexpr std::size_t kHalf = kMessageDigestBytes / 2;

// A number with all its bytes, in this machine's order: digests are compared by machines of one kind only.
template <typename T>
void append_number(std::string& facts, T number) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &number, sizeof(T));
  facts.append(bytes, sizeof(T));
}

void append_text(std::string& facts, std::string_view text) {
  append_number(facts, static_cast<std::uint64_t>(text.size()));
  facts.append(text);
}

void append_value(std::string& facts, const Value& value);

// In order of names. Headers of one name keep their order.
void append_table(std::string& facts, const Table& table) {
  std::vector<const Table::value_type*> sorted;
  sorted.reserve(table.size());
  for (const auto& field : table) sorted.push_back(&field);
  std::ranges::stable_sort(sorted, {},
                           [](const Table::value_type* field) -> const std::string& { return field->first; });
  append_number(facts, static_cast<std::uint64_t>(sorted.size()));
  for (const Table::value_type* field : sorted) {
    append_text(facts, field->first);
    append_value(facts, field->second);
  }
}

struct ValueWriter {
  std::string& facts;
  void operator()(std::monostate) const {}
  void operator()(bool yes) const { facts += yes ? '1' : '0'; }
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void operator()(Number number) const { append_number(facts, number); }
  void operator()(const Decimal& number) const {
    append_number(facts, number.scale);
    append_number(facts, number.value);
  }
  void operator()(const Timestamp& time) const { append_number(facts, time.seconds); }
  void operator()(const std::string& text) const { append_text(facts, text); }
  void operator()(const Bytes& bytes) const { append_text(facts, bytes.data); }
  void operator()(const Array& array) const {
    append_number(facts, static_cast<std::uint64_t>(array.size()));
    for (const Value& value : array) append_value(facts, value);
  }
  void operator()(const Table& table) const { append_table(facts, table); }
};

void append_value(std::string& facts, const Value& value) {
  facts += static_cast<char>('a' + value.v.index());  // its type
  std::visit(ValueWriter{facts}, value.v);
}

void append_property(std::string& facts, const std::optional<std::string>& property) {
  facts += property ? '1' : '0';
  if (property) append_text(facts, *property);
}
template <typename Number>
void append_property(std::string& facts, const std::optional<Number>& property) {
  facts += property ? '1' : '0';
  if (property) append_number(facts, *property);
}

// message_id is in the first half; the others are never published again.
constexpr std::array<std::string_view, 4> kLeftOut{"message_id", "delivery_mode", "expiration", "user_id"};

std::string half_of(std::string_view facts) { return key_of_facts(facts).substr(0, kHalf); }

std::string first_half(const Message& message) {
  std::string facts;
  append_property(facts, message.properties.message_id);
  facts += facts_of({to_hex(sha256(message.body))});
  return half_of(facts);
}

}  // namespace

std::string message_digest(const Message& stripped) {
  std::string facts;
  each_property(stripped.properties, [&](std::string_view name, const auto& property) {
    if (std::ranges::find(kLeftOut, name) == kLeftOut.end()) append_property(facts, property);
  });
  // A message without headers comes back with an empty table.
  append_table(facts, stripped.headers ? *stripped.headers : Table{});
  return first_half(stripped) + half_of(facts);
}

bool has_body_of(const Message& message, std::string_view digest) {
  return digest.substr(0, kHalf) == first_half(message);
}

Likeness likeness_of(std::string_view digest, std::string_view other) {
  if (digest == other) return Likeness::same;
  return digest.substr(0, kHalf) == other.substr(0, kHalf) ? Likeness::changed : Likeness::other;
}

namespace {

constexpr std::size_t kDigestKeyBytes = 16;

// EVP_Digest() looks up the algorithm, and allocates a context, for each digest: that takes longer than to
// compute one of a few hundred bytes. Thread: each has its own.
class Hasher {
 public:
  bool hash(std::string_view data, Sha256& out) {
    return context_ != nullptr && EVP_DigestInit_ex2(context_.get(), algorithm(), nullptr) == 1 &&
           EVP_DigestUpdate(context_.get(), data.data(), data.size()) == 1 &&
           EVP_DigestFinal_ex(context_.get(), out.data(), nullptr) == 1;
  }

 private:
  // Of the process, never freed: threads may still hash while it ends.
  static const EVP_MD* algorithm() {
    static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    return sha256;
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

std::string_view as_text(const Sha256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

Sha256 sha256(std::string_view data) {
  thread_local Hasher hasher;
  Sha256 digest{};
  // A digest of zeros would make all messages equal.
  if (!hasher.hash(data, digest)) throw std::runtime_error("OpenSSL computes no SHA-256");
  return digest;
}

std::string to_hex(const Sha256& digest, std::size_t count) {
  return to_hex(as_text(digest).substr(0, count));
}

std::string facts_of(std::initializer_list<std::string_view> fields) {
  std::string facts;
  for (const std::string_view field : fields)
    facts.append(std::to_string(field.size())).append(":").append(field);
  return facts;
}

std::string key_of_facts(std::string_view facts) {
  return std::string(as_text(sha256(facts)).substr(0, kDigestKeyBytes));
}

namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kTokenBytes = 16;  // of the HMAC's 32
constexpr std::size_t kHashBlock = 64;   // of SHA-256

}  // namespace

std::string DeliveryTokens::new_key() {
  std::array<std::uint8_t, kKeyBytes> key{};
  if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1)
    throw std::runtime_error("OpenSSL returned no random bytes");
  return to_hex(key);
}

std::optional<DeliveryTokens> DeliveryTokens::from_hex(std::string_view key) {
  auto bytes = from_hex_digits(key);
  if (!bytes || bytes->size() != kKeyBytes) return std::nullopt;
  return DeliveryTokens(*std::move(bytes));
}

// HMAC as RFC 2104 defines it, for a key shorter than a block.
std::string DeliveryTokens::mac(TaskId id, std::string_view said) const {
  static_assert(kKeyBytes <= kHashBlock);
  const auto padded_key = [&](char pad) {
    std::string block(kHashBlock, pad);
    std::ranges::transform(key_, block.begin(), [&](char c) { return static_cast<char>(c ^ pad); });
    return block;
  };
  const Sha256 inner = sha256(padded_key('\x36').append(id.str()).append("/").append(said));
  return to_hex(sha256(padded_key('\x5c').append(as_text(inner))), kTokenBytes);
}

std::string DeliveryTokens::token(TaskId id, int attempt, std::string_view digest,
                                  std::uint32_t publish) const {
  const std::string said = std::to_string(attempt) + "-" + to_hex(digest) + "-" + std::to_string(publish);
  return said + "-" + mac(id, said);
}

bool DeliveryTokens::proves(std::string_view token, TaskId id, int attempt) const {
  const int said = attempt_of_token(token);
  if (said == 0 || (attempt != 0 && attempt != said)) return false;
  const std::size_t end = token.rfind('-');
  const std::string right = mac(id, token.substr(0, end));
  const std::string_view given = token.substr(end + 1);
  return right.size() == given.size() && CRYPTO_memcmp(right.data(), given.data(), right.size()) == 0;
}

int attempt_of_token(std::string_view token) {
  const std::size_t end = token.find('-');
  if (end == std::string_view::npos) return 0;
  return std::max(number_from<int>(token.substr(0, end)).value_or(0), 0);
}

std::uint32_t publish_of_token(std::string_view token) {
  if (attempt_of_token(token) == 0) return 0;
  const std::size_t end = token.rfind('-'), before = token.rfind('-', end - 1);
  if (before == std::string_view::npos) return 0;
  return number_from<std::uint32_t>(token.substr(before + 1, end - before - 1)).value_or(0);
}

}  // namespace rung
