// Classifies error codes of the server and of the client library. Does not use the connector. Thread: any.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace rung::mysql {

enum class Trouble {
  gone,       // the connection is unusable: transient
  elsewhere,  // this server accepts no writes (now), another may: transient, the connection is closed
  passing,    // temporary, on a working connection (a lock, a full disk, a failover): transient
  row,        // about the data of this row: permanent
  refused,    // everything else: a fault of the database, retried until somebody fixes it
};

// Errors after which the connection is unusable.
inline constexpr std::array kGone = {1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2002,
                                     2003, 2005, 2006, 2013, 2014, 2027, 2055, 3169, 4031};

// Temporary errors, on a working connection: too many connections, out of memory, disk full, table full,
// killed query, timeouts, too many writes while an index was built.
inline constexpr std::array kPassing = {1021, 1023, 1037, 1040, 1041, 1114, 1129, 1135, 1180, 1203,
                                        1205, 1206, 1213, 1226, 1317, 1637, 1799, 1969, 3024, 3572};

// A server that was a primary until a moment ago (1290 --read-only, 1792 and 1836 read-only), and a node of
// Galera that is not ready (1047).
inline constexpr std::array kElsewhere = {1047, 1290, 1792, 1836};

// Errors about the data of one row. Short on purpose: an error missing from the list is retried, while a
// wrong entry makes us give up a message that the database would accept later.
inline constexpr std::array kRow = {
    1048,  // a column cannot be NULL
    1062,  // duplicate key, where the caller does not expect one
    1118,  // row size too large
    1153,  // packet larger than max_allowed_packet
    1162,  // result string longer than max_allowed_packet
    1264,  // out of range
    1265,  // data truncated
    1292,  // wrong value for a type
    1300,  // invalid character string
    1301,  // result larger than max_allowed_packet
    1366,  // wrong value for a column
    1367,  // illegal value while parsing
    1406,  // data too long
    1411,  // wrong value for a function
    1690,  // a number out of range in an expression
    2020,  // the client's code for 1153
    3140,  // invalid JSON (MySQL)
    3819,  // a CHECK is violated (MySQL)
    4025,  // a CHECK is violated (MariaDB)
};

inline constexpr int kUnknown = 1105;       // the connector's code for several things
inline constexpr int kBadStatement = 1064;  // quotes the statement

template <std::size_t N>
bool is_one_of(const std::array<int, N>& codes, int code) {
  return std::ranges::find(codes, code) != codes.end();
}

// `text`: the server's message, used only if a code has several meanings.
inline Trouble trouble_of(int code, std::string_view text) {
  if (is_one_of(kGone, code)) return Trouble::gone;
  if (is_one_of(kElsewhere, code)) return Trouble::elsewhere;
  if (is_one_of(kPassing, code)) return Trouble::passing;
  if (is_one_of(kRow, code)) return Trouble::row;
  if (code == kUnknown && text.find("max_allowed_packet") != std::string_view::npos) return Trouble::row;
  return Trouble::refused;
}

// Whether the server's message may quote a value, possibly from a message.
inline bool quotes_values(int code) {
  return code == kBadStatement ||
         (is_one_of(kRow, code) && code != 1153 && code != 1162 && code != 1301 && code != 2020);
}

// What a person has to do about a refusal, behind a semicolon; "" if the server's message says it.
inline std::string_view advice(int code) {
  switch (code) {
    case 1044:
    case 1142:
    case 1143:
    case 1227:
    case 1370:
      return "; a right is missing: GRANT it to this user (docs/permissions.md lists what Rung needs)";
    case 1045:
    case 1698:
      return "; check the user and the password in store.url (or store.password_file). MariaDB gives "
             "the same error if it accepts only encrypted connections: then set store.tls: verify";
    case 1665:
      return "; the binary log of this server has statements, not rows: SET GLOBAL binlog_format = 'ROW', "
             "and "
             "set it in the server's config";
    case 1049:
      return "; create the database, or check its name in store.url";
    case 3159:
      return "; the server accepts only encrypted connections: set store.tls: verify, and store.ca where its "
             "certificate is of an authority of your own";
    case 2059:
    case 2061:
      return "; this user's authentication plugin needs TLS or is not installed on this machine: set "
             "store.tls: verify, or ALTER USER ... IDENTIFIED WITH a plugin that the client library has";
    default:
      return "";
  }
}

}  // namespace rung::mysql
