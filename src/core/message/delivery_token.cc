#include "src/core/message/delivery_token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "src/core/message/digest.h"

namespace rung {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kTokenBytes = 16;  // of the HMAC's 32

}  // namespace

struct DeliveryTokens::Context {
  EVP_MAC* mac = nullptr;
  EVP_MAC_CTX* keyed = nullptr;
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    EVP_MAC_CTX_free(keyed);
    EVP_MAC_free(mac);
  }
};

DeliveryTokens::DeliveryTokens(std::unique_ptr<Context> context) : context_(std::move(context)) {}
DeliveryTokens::~DeliveryTokens() = default;
DeliveryTokens::DeliveryTokens(DeliveryTokens&&) noexcept = default;
DeliveryTokens& DeliveryTokens::operator=(DeliveryTokens&&) noexcept = default;

std::string DeliveryTokens::new_key() {
  std::array<std::uint8_t, kKeyBytes> key{};
  if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1)
    throw std::runtime_error("OpenSSL returned no random bytes");
  return to_hex(key);
}

std::optional<DeliveryTokens> DeliveryTokens::from_hex(std::string_view key) {
  const auto bytes = from_hex_digits(key);
  if (!bytes || bytes->size() != kKeyBytes) return std::nullopt;
  auto context = std::make_unique<Context>();
  context->mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  context->keyed = context->mac != nullptr ? EVP_MAC_CTX_new(context->mac) : nullptr;
  std::array<char, 7> digest{"SHA256"};
  const std::array<OSSL_PARAM, 2> params = {OSSL_PARAM_construct_utf8_string("digest", digest.data(), 0),
                                            OSSL_PARAM_construct_end()};
  if (context->keyed == nullptr ||
      EVP_MAC_init(context->keyed, reinterpret_cast<const unsigned char*>(bytes->data()), bytes->size(),
                   params.data()) != 1)
    return std::nullopt;
  return DeliveryTokens(std::move(context));
}

std::string DeliveryTokens::mac(TaskId id, std::string_view said) const {
  const std::string facts = id.str().append("/").append(said);
  Sha256 mac{};
  std::size_t size = 0;
  // Without a key: the same key again, from the start.
  const bool made = EVP_MAC_init(context_->keyed, nullptr, 0, nullptr) == 1 &&
                    EVP_MAC_update(context_->keyed, reinterpret_cast<const unsigned char*>(facts.data()),
                                   facts.size()) == 1 &&
                    EVP_MAC_final(context_->keyed, mac.data(), &size, mac.size()) == 1;
  if (!made || size != mac.size()) throw std::runtime_error("OpenSSL cannot compute an HMAC");
  return to_hex(mac, kTokenBytes);
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
  int attempt = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), attempt);
  const bool good = error == std::errc{} && end != token.data() + token.size() && *end == '-' && attempt > 0;
  return good ? attempt : 0;
}

std::uint32_t publish_of_token(std::string_view token) {
  if (attempt_of_token(token) == 0) return 0;
  const std::size_t end = token.rfind('-'), before = token.rfind('-', end - 1);
  if (before == std::string_view::npos) return 0;
  std::uint32_t publish = 0;
  const auto [behind, error] = std::from_chars(token.data() + before + 1, token.data() + end, publish);
  return error == std::errc{} && behind == token.data() + end ? publish : 0;
}

}  // namespace rung
