#include "src/core/causes/words.h"

#include <algorithm>
#include <array>

namespace rung::causes {
namespace {

template <std::size_t N>
bool in(const std::array<std::string_view, N>& table, std::string_view word) {
  return std::ranges::find(table, word) != table.end();
}

constexpr auto kTechnical = std::to_array<std::string_view>(
    {"utf8",    "utf16",   "utf32",   "utf8mb4", "utf-8",  "utf-16",  "sha1",    "sha256",   "sha384",
     "sha512",  "sha-1",   "sha-256", "sha-512", "md5",    "base64",  "base32",  "int8",     "int16",
     "int32",   "int64",   "uint8",   "uint16",  "uint32", "uint64",  "float32", "float64",  "u8",
     "u16",     "u32",     "u64",     "i8",      "i16",    "i32",     "i64",     "f32",      "f64",
     "ipv4",    "ipv6",    "http2",   "http3",   "h2",     "h2c",     "s3",      "ec2",      "oauth2",
     "oauth1",  "x509",    "x86",     "amd64",   "arm64",  "sslv3",   "tlsv1",   "tls1",     "pkcs1",
     "pkcs8",   "pkcs12",  "p12",     "log4j",   "log4j2", "i18n",    "l10n",    "k8s",      "web3",
     "win32",   "mp3",     "mp4",     "h264",    "latin1", "rs256",   "rs384",   "rs512",    "hs256",
     "hs384",   "hs512",   "es256",   "es384",   "ps256",  "ed25519", "aes128",  "aes256",   "rfc3339",
     "rfc2822", "iso8601", "python2", "python3", "libc6",  "glibc2",  "db2",     "neo4j",    "junit5",
     "boost1",  "log2",    "crc32",   "bcrypt2", "argon2", "oauth",   "sqlite3", "psycopg2", "mysql2",
     "ext4",    "g1",      "lz4",     "gb18030", "e2e",    "b2b",     "b2c",     "w3c",      "ec256",
     "openapi3"});

constexpr auto kUnits = std::to_array<std::string_view>({"ns",
                                                         "us",
                                                         "ms",
                                                         "msec",
                                                         "millis",
                                                         "millisecond",
                                                         "milliseconds",
                                                         "microseconds",
                                                         "nanoseconds",
                                                         "s",
                                                         "sec",
                                                         "secs",
                                                         "second",
                                                         "seconds",
                                                         "m",
                                                         "min",
                                                         "mins",
                                                         "minute",
                                                         "minutes",
                                                         "h",
                                                         "hr",
                                                         "hrs",
                                                         "hour",
                                                         "hours",
                                                         "d",
                                                         "day",
                                                         "days",
                                                         "b",
                                                         "byte",
                                                         "bytes",
                                                         "kb",
                                                         "mb",
                                                         "gb",
                                                         "tb",
                                                         "kib",
                                                         "mib",
                                                         "gib",
                                                         "k",
                                                         "eur",
                                                         "usd",
                                                         "gbp",
                                                         "chf",
                                                         "jpy",
                                                         "sek",
                                                         "nok",
                                                         "dkk",
                                                         "pln",
                                                         "czk",
                                                         "inr",
                                                         "cny",
                                                         "aud",
                                                         "cad",
                                                         "brl",
                                                         "utc",
                                                         "gmt",
                                                         "cet",
                                                         "cest",
                                                         "est",
                                                         "edt",
                                                         "pst",
                                                         "pdt",
                                                         "z",
                                                         "am",
                                                         "pm",
                                                         "percent",
                                                         "zł",
                                                         "kč",
                                                         "kr",
                                                         "px",
                                                         "items",
                                                         "item"});

constexpr auto kCalendar = std::to_array<std::string_view>(
    {"mon",     "tue",       "wed",       "thu",     "fri",      "sat",     "sun",   "monday",
     "tuesday", "wednesday", "thursday",  "friday",  "saturday", "sunday",  "jan",   "feb",
     "mar",     "apr",       "may",       "jun",     "jul",      "aug",     "sep",   "sept",
     "oct",     "nov",       "dec",       "january", "february", "march",   "april", "june",
     "july",    "august",    "september", "october", "november", "december"});

constexpr auto kTopLevel = std::to_array<std::string_view>(
    {"com",   "net",     "org",     "io",      "local",  "internal",    "lan",   "corp", "dev",
     "cloud", "svc",     "eu",      "de",      "uk",     "fr",          "nl",    "ch",   "at",
     "it",    "es",      "pl",      "se",      "us",     "ca",          "au",    "jp",   "cn",
     "in",    "br",      "info",    "biz",     "app",    "localdomain", "intra", "prod", "staging",
     "test",  "example", "invalid", "private", "consul", "aws",         "tech",  "ai",   "co"});

constexpr auto kNames = std::to_array<std::string_view>(
    {"column",     "columns",    "field",      "fields",   "table",     "relation",    "constraint",
     "property",   "properties", "attribute",  "method",   "function",  "class",       "parameter",
     "param",      "argument",   "header",     "variable", "module",    "index",       "type",
     "reading",    "setting",    "sequence",   "view",     "trigger",   "enum",        "collection",
     "keyspace",   "bean",       "import",     "template", "partial",   "route",       "package",
     "library",    "symbol",     "identifier", "struct",   "trait",     "interface",   "feature",
     "scope",      "permission", "element",    "tag",      "member",    "association", "label",
     "annotation", "operator",   "extension",  "driver",   "procedure", "role"});

constexpr auto kCodes = std::to_array<std::string_view>(
    {"status",     "statuscode",  "code",        "errno",        "errcode", "errorcode",  "error_code",
     "error-code", "reply-code",  "status_code", "status-code",  "http",    "https",      "exit",
     "sqlstate",   "signal",      "hresult",     "retcode",      "rc",      "returncode", "reason-code",
     "httpstatus", "http_status", "errornumber", "native_error", "sqlcode"});

constexpr auto kHosts =
    std::to_array<std::string_view>({"lookup", "enotfound", "eai_again", "getaddrinfo", "resolve",
                                     "resolving", "unknownhostexception", "hostname"});

constexpr auto kPhrases = std::to_array<std::string_view>({"bad request",
                                                           "unauthorized",
                                                           "forbidden",
                                                           "not found",
                                                           "method not allowed",
                                                           "not acceptable",
                                                           "request timeout",
                                                           "conflict",
                                                           "gone",
                                                           "payload too large",
                                                           "request entity",
                                                           "unsupported media",
                                                           "unprocessable",
                                                           "locked",
                                                           "too many requests",
                                                           "internal server",
                                                           "not implemented",
                                                           "bad gateway",
                                                           "service unavailable",
                                                           "service temporarily",
                                                           "gateway timeout",
                                                           "gateway time-out",
                                                           "client error",
                                                           "server error",
                                                           "precondition",
                                                           "payment required",
                                                           "(bad",
                                                           "(not",
                                                           "(internal",
                                                           "(service",
                                                           "(too",
                                                           "(gateway",
                                                           "(unauthorized",
                                                           "(forbidden",
                                                           "(conflict"});

constexpr auto kSaysWhat = std::to_array<std::string_view>({"code",
                                                            "error",
                                                            "error_code",
                                                            "errorcode",
                                                            "errorCode",
                                                            "type",
                                                            "title",
                                                            "reason",
                                                            "status",
                                                            "message",
                                                            "msg",
                                                            "detail",
                                                            "error_description",
                                                            "kind",
                                                            "state",
                                                            "op",
                                                            "method",
                                                            "exception",
                                                            "err",
                                                            "error_type",
                                                            "errno",
                                                            "syscall",
                                                            "sqlstate",
                                                            "decline_code",
                                                            "fault",
                                                            "cause",
                                                            "statuscode",
                                                            "status_code",
                                                            "reply-text",
                                                            "reply-code"});

constexpr auto kVendors = std::to_array<std::string_view>(
    {"ora", "pls",    "tns", "rman", "imp",  "sql", "sp2", "db2", "ins",  "wfly", "hhh",
     "msb", "aadsts", "kfk", "srve", "cwwk", "ibm", "err", "rpc", "jbas", "xaer"});

constexpr auto kExtensions = std::to_array<std::string_view>(
    {"java", "kt",  "scala", "groovy", "cs",  "fs",    "vb", "py",  "rb",  "php", "js",
     "ts",   "jsx", "tsx",   "mjs",    "cjs", "go",    "rs", "ex",  "exs", "erl", "cc",
     "cpp",  "cxx", "c",     "h",      "hpp", "swift", "pl", "lua", "vue"});

}  // namespace

bool is_technical(std::string_view word) {
  if (word.size() == 2 && word[0] == 'v' && word[1] >= '1' && word[1] <= '9') return true;
  if (word.starts_with("iso-8859-") || word.starts_with("windows-125")) return true;
  return in(kTechnical, word);
}
bool is_unit(std::string_view word) { return in(kUnits, word); }
bool is_currency(std::string_view word) {
  return in(std::to_array<std::string_view>({"eur", "usd", "zł", "kč", "kr", "gbp", "chf", "jpy", "sek",
                                             "nok", "dkk", "pln", "czk", "inr", "cny", "aud", "cad", "brl"}),
            word);
}
bool is_calendar(std::string_view word) { return in(kCalendar, word); }
bool is_top_level(std::string_view word) { return in(kTopLevel, word); }
bool announces_name(std::string_view word) { return in(kNames, word); }
bool announces_code(std::string_view word) { return in(kCodes, word); }
bool announces_host(std::string_view word) { return in(kHosts, word); }
bool is_reason_phrase(std::string_view text) {
  return std::ranges::any_of(kPhrases, [&](std::string_view phrase) { return text.starts_with(phrase); });
}
bool says_what(std::string_view key) { return in(kSaysWhat, key); }
bool is_vendor(std::string_view prefix) { return in(kVendors, prefix); }
bool is_file_type(std::string_view word) {
  return in(std::to_array<std::string_view>({"pdf",  "csv", "xml",  "json", "txt", "xlsx", "xls",  "docx",
                                             "doc",  "zip", "gz",   "tar",  "log", "jpg",  "jpeg", "png",
                                             "html", "yml", "yaml", "tmp",  "dat", "bin"}),
            word);
}
bool is_id_prefix(std::string_view word) {
  return in(std::to_array<std::string_view>({"ch",  "cus", "pi",   "req", "ord",  "evt",   "sub", "txn",
                                             "tok", "pm",  "inv",  "re",  "po",   "acct",  "whk", "usr",
                                             "msg", "job", "sess", "pay", "prod", "price", "seti"}),
            word);
}
bool names_place(std::string_view key) {
  return in(std::to_array<std::string_view>({"path", "loc", "field", "fields", "param", "property", "pointer",
                                             "instancepath", "column", "attribute", "parameter"}),
            key);
}
bool is_extension(std::string_view word) { return in(kExtensions, word); }

}  // namespace rung::causes
