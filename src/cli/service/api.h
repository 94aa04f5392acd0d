// What commands ask for and change: requests to the API, answered by its handlers in this process over the
// store of the config, or by an instance over HTTP. Thread: main's; every call can block, with a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/api.h"
#include "src/api/base/message.h"
#include "src/config/config.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/task/task.h"

namespace rung::cli {

using Json = api::Json;

// What is in an answer. A value that is missing, or of another kind, is empty: another release may have
// written it.
const Json& part_of(const Json& json, std::string_view name);
std::string text_of(const Json& json, std::string_view name);
std::int64_t number_of(const Json& json, std::string_view name);
double real_of(const Json& json, std::string_view name);
bool flag_of(const Json& json, std::string_view name);
std::optional<EpochMs> time_of(const Json& json, std::string_view name);

State state_of(const Json& task);

// An answer to what was asked: 2xx, or a 4xx that concerns the request itself and not the token's role.
struct Answer {
  int status = 0;
  Json json;
  bool good() const { return status >= 200 && status < 300; }
  // A member of a problem, cut to a length for people; "" = it has none, or no text.
  std::string text(std::string_view member) const;
};

class Api {
 public:
  virtual ~Api() = default;

  // One request. `body`: nullptr = none. `safe`: it may be repeated, for a few seconds, while a server
  // restarts or is too busy. Errors: transient: the database or the instance is not reachable, or cannot
  // answer now; refused: it refuses the login, the token, its role or a right; permanent: an answer that is
  // not Rung's.
  virtual Result<Answer> call(const char* method, const std::string& path, const Json* body, bool safe) = 0;
  // An answer that Rung does not give.
  virtual Error strange(const std::string& what) const { return {Error::Kind::permanent, what}; }

  // The JSON of a good answer; every other is an error: 404 is not_found, the others are permanent.
  Result<Json> get(const std::string& path) { return good(call("GET", path, nullptr, true)); }
  Result<Json> post(const std::string& path, const Json& body) {
    return good(call("POST", path, &body, false));
  }
  static Result<Json> good(Result<Answer> answer);

  // The database's time.
  Result<EpochMs> now();
};

// The option of a member of a request: "due_before" -> "--due-before".
std::string option_for(std::string_view member);
// Why it is not good: all that is wrong with members of the request, each with what `name` calls the member
// ("" = without a name), else the detail.
Error error_of(const Answer& answer, const std::function<std::string(std::string_view)>& name = option_for);

// "/v1/tasks" + {"queue", "a b"} -> "/v1/tasks?queue=a%20b"; empty values are left out.
using Parameters = std::vector<std::pair<std::string, std::string>>;
std::string with_query(std::string path, const Parameters& parameters);

// A page of a list: at most `limit` rows, at most kRowsAPage. The answer has the rows in the member `list`,
// and the cursor of the next page in `next`.
inline constexpr std::size_t kRowsAPage = 1000;
Result<Json> read_page(Api& api, const std::string& path, Parameters parameters, const char* list,
                       std::size_t limit, const std::string& cursor);
// The last page that it takes to read `most` rows, with all of them.
Result<Json> read_rows(Api& api, const std::string& path, const Parameters& parameters, const char* list,
                       std::size_t most = SIZE_MAX, std::string cursor = {});

// Over the HTTP API of an instance (docs/http.md): whoever uses it needs neither the database's nor the
// broker's password. Errors: the file with the token.
Result<std::unique_ptr<Api>> api_client(const ApiOptions& options);

// In this process, over the database. `first`: an open connection, or none. REQUIRES: config and clock
// outlive it.
std::unique_ptr<Api> local_api(const Config& config, const Clock& clock, const std::string& who,
                               std::unique_ptr<MysqlStore> first);

// What a sidecar's flow does for the API, done by the store itself. Without a lease: row locks and decide()
// protect against concurrent changes by sidecars, and the shard's owner finds new rows by its sweep.
// REQUIRES: `reads` and `config` outlive it.
api::Bridging store_bridging(api::Reads& reads, const Config& config);

}  // namespace rung::cli
