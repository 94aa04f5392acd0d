// The API of an instance over HTTP: JSON, of bounded size.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "src/api/base/message.h"
#include "src/cli/service/api.h"
#include "src/core/base/secret_file.h"
#include "src/net/http_client.h"

namespace rung::cli {
namespace {

constexpr Ms kConnecting{std::chrono::seconds{5}}, kAnswering{std::chrono::seconds{60}};
// More than a page of a thousand tasks with the longest errors; a message of 48 MB in base64.
constexpr std::size_t kMostOfAnswer = 64UL << 20;
constexpr std::int64_t kMostOfValues = 2LL << 30;  // bytes of memory for its JSON
constexpr Ms kFirstPause{200};                     // doubled after each try
constexpr Ms kPatience{std::chrono::seconds{5}};   // the pauses between the tries of a request, in all

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

class ApiClient final : public Api {
 public:
  ApiClient(const ApiOptions& options, const std::string& token)
      : name_("the API " + options.url), token_file_(options.token_file), http_(options_of(options, token)) {}

  Error strange(const std::string& what) const override {
    return {Error::Kind::permanent, name_ + ": the answer is " + what};
  }

  Result<Answer> call(const char* method, const std::string& path, const Json* body, bool safe) override {
    Ms waited{0};
    for (Ms pause = kFirstPause;; pause *= 2) {
      auto answer = ask(method, path, body);
      if (answer || !safe || !try_again_) return answer;
      const Ms wait = std::max(pause, *try_again_);
      if (waited + wait > kPatience) return answer;
      std::this_thread::sleep_for(wait);
      waited += wait;
    }
  }

 private:
  Result<Answer> ask(const char* method, const std::string& path, const Json* body) {
    const net::HttpReply reply = http_.send(method, path, body != nullptr ? api::dump(*body) : "");
    try_again_ = when_again(reply, answered_);
    if (reply.status == 0) return transient(name_ + " " + reply.error);
    answered_ = true;
    const std::string what = fmt::format("{} to {} {}", reply.status, method, path.substr(0, path.find('?')));
    Answer answer{reply.status, {}};
    auto json = api::memory_of_json(reply.body).values <= kMostOfValues
                    ? api::parse_json(reply.body)
                    : Result<Json>(permanent("it has too many values"));
    const bool read = json.has_value();
    if (read) answer.json = *std::move(json);
    const std::string detail = answer.text("detail");
    if (is_passing(reply.status))
      return transient(name_ + " cannot answer now: " + (detail.empty() ? what : detail));
    // Of a proxy, or of another service; its text is a stranger's.
    if (!read || !answer.json.is_object() || (!answer.good() && detail.empty()))
      return tl::unexpected(strange("not Rung's: " + what));
    const bool role = reply.status == 403 && !answer.text("needs_role").empty();
    if (reply.status != 401 && !role) return answer;
    const std::string file = token_file_.empty() ? "no token file is given" : token_file_;
    return tl::unexpected(
        Error{Error::Kind::refused, name_ + ": " + detail + (role ? "" : " (" + file + ")")});
  }

  const std::string name_, token_file_;
  net::HttpClient http_;
  bool answered_ = false;        // since the start: its address is right
  std::optional<Ms> try_again_;  // after the last call: when to repeat it
};

}  // namespace

Result<std::unique_ptr<Api>> api_client(const ApiOptions& options) {
  std::string token;
  if (!options.token_file.empty()) {
    auto read = read_token(options.token_file);
    if (!read) return tl::unexpected(read.error());
    token = *std::move(read);
  }
  return std::make_unique<ApiClient>(options, token);
}

}  // namespace rung::cli
