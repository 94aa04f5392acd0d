#include "src/cli/service/api_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "src/api/json/fields.h"
#include "src/cli/service/retry.h"
#include "src/core/base/hex.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/utf8.h"
#include "src/net/http_client.h"

namespace rung::cli {
namespace {

constexpr Ms kConnecting{std::chrono::seconds{5}}, kAnswering{std::chrono::seconds{60}};
// More than a page of a thousand tasks with the longest errors; a message of 48 MB in base64.
constexpr std::size_t kMostOfAnswer = 64UL << 20;
constexpr std::int64_t kMostOfValues = 2LL << 30;  // bytes of memory for its JSON
constexpr std::size_t kMostShown = 4000;           // bytes of a text that the server writes for people
constexpr std::size_t kMostPages = 1'000'000, kMostRows = 1'000'000;
constexpr Ms kPatience{std::chrono::seconds{5}};  // the pauses between the tries of a request, in all

Result<std::string> read_token(const std::string& file) {
  auto lines = read_secret_lines(file, "token", 8);
  if (!lines) return tl::unexpected(Error{lines.error().kind, file + ": " + lines.error().message});
  const auto first = std::ranges::find_if(*lines, [](const std::string& line) { return !line.empty(); });
  const auto is_printable = [](char c) { return c > ' ' && c <= '~'; };
  if (first == lines->end()) return permanent(file + " has no token");
  if (!std::ranges::all_of(*first, is_printable))
    return permanent(file + ": a token is printable ASCII without spaces");
  return *first;
}

net::HttpClientOptions options_of(const ApiOptions& options, const std::string& token) {
  net::HttpClientOptions o;
  o.base = options.url;
  while (o.base.ends_with('/')) o.base.pop_back();
  if (!token.empty()) o.headers = {{"Authorization", "Bearer " + token}};
  o.ca = options.ca;
  o.connecting = kConnecting;
  o.answering = kAnswering;
  o.max_answer = kMostOfAnswer;
  return o;
}

// A server that stops, or is too busy, says so with these.
bool is_passing(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504 || status == 408;
}

// How long to wait at least before the same request may have another answer; nullopt: for too long, or for
// ever. An address where nobody has answered yet is probably wrong.
std::optional<Ms> when_again(const net::HttpReply& reply, bool answered) {
  if (is_passing(reply.status)) return reply.retry_after;
  if (reply.status == 0 && reply.may_pass && answered) return Ms{0};
  return std::nullopt;
}

}  // namespace

struct ApiClient::Impl {
  Impl(const ApiOptions& options, const std::string& token)
      : named("the API " + options.url), token_file(options.token_file), http(options_of(options, token)) {}

  std::string named;
  std::string token_file;
  net::HttpClient http;
  bool answered = false;        // since the start: its address is right
  std::optional<Ms> try_again;  // after the last call: when to repeat it
};

ApiClient::ApiClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiClient::~ApiClient() = default;
const std::string& ApiClient::name() const { return impl_->named; }

Result<ApiClientPtr> ApiClient::open(const ApiOptions& options) {
  std::string token;
  if (!options.token_file.empty()) {
    auto read = read_token(options.token_file);
    if (!read) return tl::unexpected(read.error());
    token = *std::move(read);
  }
  return ApiClientPtr(
      new ApiClient(std::make_unique<Impl>(options, token)));  // NOLINT: the constructor is private
}

std::string ApiClient::Answer::text(std::string_view member) const {
  if (!json.is_object()) return {};
  const auto it = json.find(member);
  return it != json.end() && it->is_string() ? clean_utf8(it->get<std::string>(), kMostShown) : std::string();
}

Error ApiClient::strange(const std::string& what) const {
  return {Error::Kind::permanent, impl_->named + ": the answer is " + what};
}

Result<ApiClient::Answer> ApiClient::call(const char* method, const std::string& path,
                                          const api::Json* body) {
  const net::HttpReply reply = impl_->http.send(method, path, body != nullptr ? api::dump(*body) : "");
  impl_->try_again = when_again(reply, impl_->answered);
  if (reply.status == 0) return transient(impl_->named + " " + reply.error);
  impl_->answered = true;
  const std::string what = fmt::format("{} to {} {}", reply.status, method, path.substr(0, path.find('?')));
  Answer answer{reply.status, {}};
  const api::JsonMemory memory = api::memory_of_json(reply.body);
  auto json = memory.values <= kMostOfValues ? api::parse_json(reply.body)
                                             : Result<api::Json>(permanent("it has too many values"));
  const bool read = json.has_value();
  if (read) answer.json = *std::move(json);
  const std::string detail = answer.text("detail");
  if (is_passing(reply.status))
    return transient(impl_->named + " cannot answer now: " + (detail.empty() ? what : detail));
  if (!read || !answer.json.is_object() || (!answer.good() && detail.empty())) {
    // Of a proxy, or of another service; its text is a stranger's.
    return tl::unexpected(strange("not Rung's: " + what));
  }
  const bool role = reply.status == 403 && !answer.text("needs_role").empty();
  if (reply.status == 401 || role) {
    const std::string file = impl_->token_file.empty() ? "no token file is given" : impl_->token_file;
    return tl::unexpected(
        Error{Error::Kind::refused, impl_->named + ": " + detail + (role ? "" : " (" + file + ")")});
  }
  return answer;
}

Result<ApiClient::Answer> ApiClient::call_patiently(const char* method, const std::string& path,
                                                    const api::Json* body) {
  Ms waited{0};
  for (Ms pause = kFirstBackoff;; pause *= 2) {
    auto answer = call(method, path, body);
    if (answer || !impl_->try_again) return answer;
    const Ms wait = std::max(pause, *impl_->try_again);
    if (waited + wait > kPatience) return answer;
    std::this_thread::sleep_for(wait);
    waited += wait;
  }
}

Error ApiClient::error_of(const Answer& answer) const {
  return {answer.status == 404 ? Error::Kind::not_found : Error::Kind::permanent, answer.text("detail")};
}

Result<api::Json> ApiClient::good(Result<Answer> answer) const {
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->good()) return tl::unexpected(error_of(*answer));
  return std::move(answer->json);
}

std::string with_query(std::string path, const Parameters& parameters) {
  char before = '?';
  for (const auto& [name, value] : parameters) {
    if (value.empty()) continue;
    path += before + percent_encode(name) + "=" + percent_encode(value);
    before = '&';
  }
  return path;
}

Result<void> read_pages(ApiClient& client, const std::string& path, const Parameters& parameters,
                        const AddPage& add, std::size_t most, std::string cursor) {
  std::size_t rows = 0;
  for (std::size_t page = 0; page < kMostPages; ++page) {
    Parameters all = parameters;
    const std::size_t asked = std::min(most - rows, kRowsAPage);
    all.emplace_back("limit", std::to_string(asked));
    all.emplace_back("cursor", cursor);
    auto json = client.get(with_query(path, all));
    if (!json) return tl::unexpected(json.error());
    const auto added = add(*json);
    if (!added) return tl::unexpected(client.strange(added.error().message));
    if (*added > asked) return tl::unexpected(client.strange("a page that is longer than asked for"));
    rows += *added;
    api::Reading read(*json, "page");
    const std::string next = read.text("next");
    if (const auto good = read.done(true); !good) return tl::unexpected(client.strange(good.error().message));
    if (next.empty() || rows >= most) return {};
    if (next == cursor || *added == 0) return tl::unexpected(client.strange("a page that leads to itself"));
    if (rows >= kMostRows) return tl::unexpected(client.strange("a list of more than a million rows"));
    cursor = next;
  }
  return tl::unexpected(client.strange("a list without an end"));
}

void add_target(const Target& target, api::Json& body) {
  if (!target.queue.empty()) body["queue"] = target.queue;
  if (!target.exchange.empty()) body["exchange"] = target.exchange;
  if (!target.routing_key.empty()) body["routing_key"] = target.routing_key;
}

}  // namespace rung::cli
