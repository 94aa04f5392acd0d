// Requests to the HTTP API of an instance, and its answers: JSON, of bounded size. Thread: one; calls block,
// bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/json/json.h"
#include "src/api/json/reading.h"
#include "src/cli/service/service.h"
#include "src/config/config.h"
#include "src/core/base/result.h"
#include "src/core/task/task.h"

namespace rung::cli {

class ApiClient {
 public:
  // An answer to what was asked: 2xx, or a 4xx that concerns the request itself and not the token's role.
  struct Answer {
    int status = 0;
    api::Json json;
    bool good() const { return status >= 200 && status < 300; }
    // A member of a problem, cut to a length for people; "" = it has none, or no text.
    std::string text(std::string_view member) const;
  };

  // Reads the file with the token. Errors: that file.
  static Result<std::shared_ptr<ApiClient>> open(const ApiOptions& options);
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  // One request. `body`: nullptr = none. Errors: transient: not reachable, or it cannot answer now; refused:
  // the token, or its role; permanent: an answer that is not Rung's.
  Result<Answer> call(const char* method, const std::string& path, const api::Json* body = nullptr);
  // A request that is safe to repeat: while a server restarts or is too busy, for a few seconds.
  Result<Answer> call_patiently(const char* method, const std::string& path, const api::Json* body = nullptr);
  // The JSON of a good answer; every other is an error: 404 is not_found, the others are permanent. GET is
  // safe to repeat.
  Result<api::Json> get(const std::string& path) { return good(call_patiently("GET", path)); }
  Result<api::Json> post(const std::string& path, const api::Json& body) {
    return good(call("POST", path, &body));
  }
  Result<api::Json> good(Result<Answer> answer) const;
  Error error_of(const Answer& answer) const;

  // An answer that Rung does not give, with the API's name.
  Error strange(const std::string& what) const;
  const std::string& name() const;  // "the API https://rung.example:8025"

 private:
  struct Impl;
  explicit ApiClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};
using ApiClientPtr = std::shared_ptr<ApiClient>;

// Reads the object of an answer; the error names the API if that is not what Rung writes.
template <typename Read>
auto read_answer(const ApiClient& client, const Result<api::Json>& json, const Read& read)
    -> decltype(read(*json)) {
  if (!json) return tl::unexpected(json.error());
  auto value = read(*json);
  if (!value) return tl::unexpected(client.strange(value.error().message));
  return value;
}

// "/v1/tasks" + {"queue", "a b"} -> "/v1/tasks?queue=a%20b"; empty values are left out.
using Parameters = std::vector<std::pair<std::string, std::string>>;
std::string with_query(std::string path, const Parameters& parameters);

// The pages of a list: calls `add(page)`, which returns the number of its rows, until there is no next page
// or `most` rows were read. `cursor`: where to begin; "" = at the start.
inline constexpr std::size_t kRowsAPage = 1000;
using AddPage = std::function<Result<std::size_t>(const api::Json& page)>;
Result<void> read_pages(ApiClient& client, const std::string& path, const Parameters& parameters,
                        const AddPage& add, std::size_t most = SIZE_MAX, std::string cursor = {});

// All rows of such a list, or the first `most` from `cursor` on, each read by `read`.
template <typename Row>
Result<std::vector<Row>> read_rows(ApiClient& client, const std::string& path, const Parameters& parameters,
                                   const char* list, Result<Row> (*read)(const api::Json&),
                                   std::size_t most = SIZE_MAX, std::string cursor = {}) {
  std::vector<Row> rows;
  const auto add = [&](const api::Json& page) -> Result<std::size_t> {
    auto more = api::read_list(api::Reading(page, "page").part(list), read);
    if (!more) return tl::unexpected(more.error());
    rows.insert(rows.end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
    return more->size();
  };
  auto done = read_pages(client, path, parameters, add, most, std::move(cursor));
  if (!done) return tl::unexpected(done.error());
  return rows;
}

// Adds the members that a request names a target by: queue, or exchange and routing_key.
void add_target(const Target& target, api::Json& body);

// For api_service().
std::unique_ptr<TaskQueries> api_queries(const ApiClientPtr& client);
std::unique_ptr<TaskChanges> api_changes(const ApiClientPtr& client);
std::unique_ptr<BulkService> api_bulks(const ApiClientPtr& client);

}  // namespace rung::cli
