#include "src/http/local.h"

#include "src/http/request/problem.h"

namespace rung::http {
namespace {

constexpr Ms kCallTimeout{std::chrono::hours{1}};  // the store has its own

}  // namespace

LocalApi::LocalApi(ContextParts parts, std::string who, const Clock& clock)
    : who_(std::move(who)),
      context_(std::move(parts), kCallTimeout, 0, clock),
      router_(context_, api_routes()) {
  context_.most_counted = INT64_MAX;
  context_.counting_stats = api::TaskCounter::kAll;
}

Response LocalApi::call(const std::string& method, std::string_view target, std::string_view body) {
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string path(target.substr(0, question));
  auto query = parse_query(target.substr(std::min(question + 1, target.size())));
  if (!query) return problem(400, query.error().message, path);
  return router_.call(method, path, *std::move(query), body, who_);
}

}  // namespace rung::http
