// Requests and responses of the API, for HTTP and the command line: their JSON, what a request says (path,
// query, host, the fields of its body), and errors as in RFC 9457: application/problem+json that says what is
// wrong and what would be right. The server of src/http creates requests and sends responses. Thread: values;
// pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung::api {

using Json = nlohmann::ordered_json;

// Compact; never throws: invalid UTF-8 is replaced.
std::string dump(const Json& json);

// null: an empty text, or no value.
Json text_or_null(std::string_view text);
Json time_or_null(const std::optional<EpochMs>& time);  // RFC 3339
Json ms_or_null(const std::optional<Ms>& duration);

// The error of one field of a request: "delay", "tasks[3].headers".
struct FieldError {
  std::string field, detail;
  bool operator==(const FieldError&) const = default;
};
using FieldErrors = std::vector<FieldError>;
// Names and values: of a query, of headers.
using Pairs = std::vector<std::pair<std::string, std::string>>;

inline constexpr std::size_t kNameBytes = 255;  // limit of AMQP's short strings and of the columns

// The maximum number of errors reported per request.
inline constexpr std::size_t kMostTold = 20;

// Parses JSON in linear time. Errors: invalid JSON, nesting deeper than kDeepestNesting, a duplicate key in
// an object. `line`: the number of its first line, for people.
Result<Json> parse_json(std::string_view text, std::ptrdiff_t line = 1);
// "line 2, column 5": where the byte with this number, from 1, is in a text that begins with line `line`.
std::string place_in(std::string_view text, std::size_t byte, std::ptrdiff_t line = 1);

// An upper bound of the memory for parsing JSON text: for values (including growing vectors and objects), and
// for strings with their copies.
struct JsonMemory {
  std::int64_t values = 0, texts = 0;  // bytes
};
JsonMemory memory_of_json(std::string_view text);

class Fields {
 public:
  // The body of a request: check() throws what is wrong.
  explicit Fields(const Json& object) : Fields(object, "", own_) {}
  // `prefix` is prepended to each name in the errors: "tasks[3]." or "".
  Fields(const Json& object, std::string prefix, FieldErrors& errors);

  // The value of that name; nullptr if it is absent or null. Each requested name becomes a known field.
  const Json* get(std::string_view name);
  bool has(std::string_view name) { return get(name) != nullptr; }

  // nullopt: absent, or invalid and reported.
  std::optional<std::string> text(std::string_view name, std::size_t most);
  std::optional<std::string> name(std::string_view name);  // an AMQP name: at most 255 bytes, no NUL
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most);
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<bool> flag(std::string_view name);
  std::optional<Ms> duration(std::string_view name, Ms least);  // "30m", or an integer of ms
  std::optional<EpochMs> time(std::string_view name);           // RFC 3339
  std::optional<Silence> silence(std::string_view name);  // {presumed_after: ...} or {reported_within: ...}
  // queue, or exchange and routing_key; not both. Rejects Rung's own names and queues of other groups.
  Target target(const TargetRules& rules);

  void wrong(std::string_view name, std::string detail);
  // Reports unknown fields, before all other errors: a missing field may be a misspelt one.
  void finish();
  // Does that, and throws the errors (Problem), if there are any.
  void check();
  FieldErrors& errors() { return errors_; }

 private:
  FieldErrors own_;
  const Json& object_;
  const std::string prefix_;
  FieldErrors& errors_;
  const std::size_t first_;  // index into errors_ of this object's first error
  std::vector<std::string_view> known_;
};

// Quotes a text for a message: shortened, without control characters.
std::string shown(std::string_view text);

// A response that goes on, server-sent events: what is to be sent now, "" = nothing; none: the stream has
// ended. Called a few times a second; must not block.
using EventStream = std::function<std::optional<std::string>()>;

struct Request {
  std::string method, path;  // the path decoded, without the query
  // Then `path` is as it was received: a proxy that compares paths takes the slash for part of a segment. The
  // same if it cannot be decoded; it matches no path of ours then.
  bool has_encoded_slash = false;
  Pairs query;  // decoded, in the order received
  // The headers that we use; "" if missing. `authorization` holds a secret: only Access reads it, and it is
  // neither logged nor returned.
  std::string authorization, host, origin, content_type, content_encoding;
  std::optional<std::string> if_match;
  // Of a browser: its cookies (src/http/access/access.h; secret), the headers X-Rung-CSRF, Sec-Fetch-Site,
  // Last-Event-ID.
  std::string cookies, csrf, fetch_site, last_event_id, if_none_match;
  bool has_body = false;
  std::string_view body;  // valid during the call
  std::string peer;       // the client's address
  bool spare = false;     // all connections are in use: only probes are answered
  int connections = 0;    // that are open
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  Pairs headers;
  bool close = false;                 // close the connection after it
  EventStream stream = {};            // sent instead of `body`, until it ends
  std::shared_ptr<void> memory = {};  // what `body` counts for, until it is sent
  std::optional<Error> error = {};    // of a store: why there is no better answer
};

// The path and the query of a target: percent-decoded, NAME=VALUE split at the first =, a + of the query is a
// space. Throws a 400.
void read_target(std::string_view target, Request& request);

// A segment of the request's path, decoded; it may contain a slash then.
std::string decode_segment(std::string_view segment, const Request& request);

// The value of a cookie in the header Cookie; "" = it is not there.
std::string cookie_named(std::string_view name, std::string_view header);

// Whether a Host header is a name or an address, with or without a port: no user, path or percent-encoding.
bool is_host(std::string_view text);

// "Bad Request": the title of a status.
std::string_view title_of(int status);

// "state_conflict": what went wrong, for scripts, where no better one is given (member `code`). In
// docs/http.md.
std::string_view code_of(int status);

// Why a request is refused, or cannot be answered. It is thrown, and ends the request: the router and the
// server make the response of it.
struct Problem : std::exception {
  // `also`: further members. `with`: headers of the response.
  Problem(int of, std::string why, Json also = Json(), Pairs with = {})
      : status(of), detail(std::move(why)), more(std::move(also)), headers(std::move(with)) {}
  // The detail names the first error, the member `errors` all of them.
  explicit Problem(const FieldErrors& errors);
  // Of a store or the bridge: transient is 503, not_found 404, the rest 500.
  explicit Problem(Error of);
  const char* what() const noexcept override { return detail.c_str(); }

  // The object alone: bulk responses contain one per item.
  Json json(std::string_view instance) const;

  int status;
  std::string detail;
  Json more;
  Pairs headers;
  std::optional<Error> error = {};
};
// Of a 503 without headers: with Retry-After.
Response problem(const Problem& of, std::string_view instance);
// The value; throws the error.
template <typename T>
T need(Result<T> result) {
  return value_or_throw<Problem>(std::move(result));
}

// Escapes control and format characters in the texts: responses are shown on terminals, too.
Response answer(int status, const Json& json, Pairs headers = {});

struct Param {
  enum class Is : std::uint8_t {
    text,      // 1 to 255 bytes of UTF-8
    cause,     // the id of one
    any,       // also empty
    word,      // one of `words`
    words,     // several of them, separated by commas
    list,      // texts, separated by commas
    flag,      // true or false
    time,      // RFC 3339
    duration,  // "1m"
    limit,     // rows on a page
    cursor,    // `next` of the previous page: a text
    id_cursor,
    headers,  // "header.NAME" for each header
    header    // of the request, not of its query
  };
  std::string_view name;
  Is is = Is::text;
  std::string_view help = {};
  std::span<const std::string_view> words = {};
};

// The parameters of a list in pages.
inline constexpr int kUsualPage = 50, kMostOnPage = 1000;
inline constexpr Param kLimit{"limit", Param::Is::limit, "rows on a page"};
inline constexpr Param kCursor{"cursor", Param::Is::cursor, "`next` of the previous page"};
inline constexpr Param kIdCursor{"cursor", Param::Is::id_cursor, "`next` of the previous page"};
inline constexpr const char* kWrongCursor = "must be the `next` of the previous page, in the same order";
inline constexpr std::string_view kHeaderParam = "header.";

// The id in a cursor, or in a path; nullopt: it is none.
std::optional<std::int64_t> id_of_cursor(std::string_view cursor);

// Whether this is 12 hexadecimal digits.
bool is_cause_id(std::string_view text);

// Whether `name` is the parameter's: its name, or with `headers` "header.NAME".
bool is_named(const Param& param, std::string_view name);
// A time in a query: a + that was not written as %2B has become a space.
std::string written_time(std::string_view value);
// Texts separated by commas, maybe with a space after them; of "" none.
std::vector<std::string> split_words(std::string_view text);

// As OpenAPI describes it.
Json param_json(const Param& param);

struct Page {
  int limit = kUsualPage;
  std::string cursor = {};  // `next` of the previous page; "" = the first page
};

// A page: {"tasks": [...], "next": "..."}. `cursor(row)` is what `next` is after the row, null at the end;
// `show(row)` its JSON. REQUIRES: `rows` are behind the page's cursor, and one more than `limit` if there are
// more.
template <typename Rows, typename Cursor, typename Show>
Json page_of(const char* list, const Rows& rows, int limit, Cursor cursor, Show show) {
  const auto most = static_cast<std::size_t>(limit);
  Json json = {{list, Json::array()}};
  for (std::size_t i = 0; i < rows.size() && i < most; ++i) json[list].push_back(show(rows[i]));
  json["next"] = rows.size() > most ? Json(cursor(rows[most - 1])) : Json();
  return json;
}
// The same of a list that was read whole: the rows with a larger id than the cursor's. `id(row)`.
template <typename Row, typename Id, typename Show>
Json page_by_id(const char* list, std::vector<Row> rows, const Page& page, Id id, Show show) {
  const std::int64_t after = id_of_cursor(page.cursor).value_or(-1);
  std::erase_if(rows, [&](const Row& row) { return id(row) <= after; });
  return page_of(
      list, rows, page.limit, [&](const Row& row) { return std::to_string(id(row)); }, show);
}

// "queue, header.NAME, limit"
std::string known_params(std::span<const Param> params);
// Unknown, repeated and wrong parameters go to `errors`, with `prefix` before them. `kind`: what people call
// them.
void check_params(const Pairs& given, std::span<const Param> params, FieldErrors& errors,
                  std::string_view prefix = "", const std::string& kind = "parameter");

// The query of a request. REQUIRES: its parameters are checked.
class Query {
 public:
  Query() = default;
  explicit Query(Pairs given) : given_(std::move(given)) {}

  // The value of a parameter that is not there: "", none, false.
  std::string text(std::string_view name) const;
  std::optional<EpochMs> time(std::string_view name) const;
  bool flag(std::string_view name) const { return text(name) == "true"; }
  std::vector<std::string> words(std::string_view name) const { return split_words(text(name)); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  Page page() const;
  const Pairs& all() const { return given_; }

 private:
  const std::string* find(std::string_view name) const;

  Pairs given_;
};

}  // namespace rung::api
