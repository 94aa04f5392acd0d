// Parses each type of value, and reports errors.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "src/config/draft.h"
#include "src/core/base/url.h"

namespace rung::confile {
namespace {

constexpr std::string_view kDuration = "a number and a unit (ms, s, m, h, d), e.g. 30s, 5m or 1h30m";

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

std::optional<int> to_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_plain_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

// Why the file cannot be read; "" = it is readable.
std::string unreadable(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::strerror(errno);  // NOLINT: one thread loads
  struct stat info {};
  const bool folder = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
  close(fd);
  return folder ? "it is a directory" : "";
}

}  // namespace

bool Value::add_error(std::string what) { return add_error_at(node.mark, std::move(what)); }

bool Value::add_error_at(Mark at, std::string what) {
  problems.add(at, path + ": " + std::move(what));
  return false;
}

std::string Value::shown() const {
  if (secret) return "the value";
  return node.substituted ? "the value of " + in_quotes(node.written) : in_quotes(node.text);
}

bool Value::expect_scalar(std::string_view wanted) {
  if (node.invalid) return false;
  switch (node.kind) {
    case Node::Kind::text:
      return true;
    case Node::Kind::nothing:
      return add_error("missing value: expected " + std::string(wanted));
    case Node::Kind::list:
      return add_error("expected " + std::string(wanted) + ", found a list");
    case Node::Kind::map:
      return add_error("expected " + std::string(wanted) + ", found keys");
  }
  return false;
}

bool Value::text(std::string& out) {
  if (!expect_scalar("a string")) return false;
  if (node.text.empty()) return add_error("must not be empty");
  if (node.text.find('\0') != std::string::npos) return add_error("must not contain a NUL byte");
  out = node.text;
  return true;
}

bool Value::amqp_name(std::string& out) {
  if (!text(out)) return false;
  return out.size() <= 255 || add_error("at most 255 bytes are allowed");
}

bool Value::duration(Ms& out, Ms least, Ms most) {
  if (!expect_scalar("a duration, e.g. 30s or 1h30m")) return false;
  const auto parsed = levels::parse_duration(node.text);
  if (!parsed) {
    if (may_quote()) return add_error(in_quotes(node.text) + ": " + parsed.error());
    return add_error(shown() + " is not a duration: " +
                     std::string(kDuration));  // the parser's error would quote a part of it
  }
  if (*parsed < least)
    return add_error(shown() + " is too short: at least " + levels::format_duration(least));
  if (*parsed > most) return add_error(shown() + " is too long: at most " + levels::format_duration(most));
  out = *parsed;
  return true;
}

bool Value::whole_seconds(Ms& out, Ms least, Ms most) {
  Ms value{0};
  if (!duration(value, least, most)) return false;
  if (value.count() % 1000 != 0) return add_error(shown() + " is not a whole number of seconds, e.g. 10s");
  out = value;
  return true;
}

bool Value::integer(int& out, int least, int most) {
  const std::string range = "an integer from " + std::to_string(least) + " to " + std::to_string(most);
  if (!expect_scalar(range)) return false;
  const auto value = to_int(node.text);
  if (!value || *value < least || *value > most) return add_error(shown() + " is not " + range);
  out = *value;
  return true;
}

bool Value::number(double& out) {
  if (!expect_scalar("a number, e.g. 2 or 1.5")) return false;
  // from_chars takes "inf" and "nan" too, which are no numbers here.
  const bool plain = node.text.find_first_not_of("0123456789.") == std::string::npos;
  double value = 0;
  const char* const last = node.text.data() + node.text.size();
  const auto [end, error] = std::from_chars(node.text.data(), last, value);
  if (!plain || error != std::errc{} || end != last)
    return add_error(shown() + " is not a number, e.g. 2 or 1.5");
  out = value;
  return true;
}

bool Value::percent_or_off(double& out) {
  constexpr std::string_view kWanted = "off, or a percentage from 0% to 100%, e.g. 20%";
  if (!expect_scalar(kWanted)) return false;
  if (node.text == "off") {
    out = 0.0;
    return true;
  }
  std::string_view digits = node.text;
  const bool has_sign = digits.ends_with('%');
  if (has_sign) digits.remove_suffix(1);
  const auto percent = to_int(digits);
  if (percent && *percent >= 0 && *percent <= 100) {
    if (!has_sign && may_quote())
      return add_error(shown() + ": the % is missing: write " + std::to_string(*percent) + "%");
    if (has_sign) {
      out = *percent / 100.0;
      return true;
    }
  }
  return add_error(shown() + " is not " + std::string(kWanted));
}

bool Value::boolean(bool& out) {
  if (!expect_scalar("true or false")) return false;
  if (node.text != "true" && node.text != "false") return add_error(shown() + " is neither true nor false");
  out = node.text == "true";
  return true;
}

bool Value::choice(std::string& out, const std::vector<std::string>& words) {
  if (!expect_scalar(join(words))) return false;
  if (std::ranges::find(words, node.text) == words.end()) {
    return add_error(shown() + " is not " + join(words) +
                     (may_quote() ? did_you_mean(node.text, words) : ""));
  }
  out = node.text;
  return true;
}

bool Value::name(std::string& out, std::size_t most) {
  if (!expect_scalar("a name")) return false;
  if (node.text.empty()) return add_error("must not be empty: remove the key, or write a name");
  if (node.text.size() > most) return add_error("longer than " + std::to_string(most) + " characters");
  if (!std::ranges::all_of(node.text, is_plain_char)) {
    return add_error(shown() + " has invalid characters: use letters, digits and . _ -");
  }
  out = node.text;
  return true;
}

// "%H-%i": one file for several instances. Not the process id: a restart under the same name takes back its
// shards at once.
bool Value::node_name(std::string& out, std::size_t most) {
  if (node.kind != Node::Kind::text || node.invalid) return name(out, most);
  Node filled = node;
  filled.text.clear();
  const std::string& from = node.text;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != '%') {
      filled.text += from[i];
      continue;
    }
    const char which = i + 1 < from.size() ? from[++i] : ' ';
    if (which == 'H') {
      filled.text += host_name();
    } else if (which == 'i') {
      const char* instance = std::getenv("RUNG_INSTANCE");  // NOLINT: nobody in this program sets variables
      const bool needed = draft.purpose == ConfigFor::sidecar;
      if (needed && (instance == nullptr || *instance == '\0')) {
        return add_error(
            "%i is the value of the environment variable RUNG_INSTANCE, which is not set: "
            "rung@NAME.service sets it to NAME; elsewhere set it to a name of this instance");
      }
      filled.text += instance == nullptr || *instance == '\0' ? "i" : instance;
    } else {
      return add_error("% begins %H (the host name) or %i (the variable RUNG_INSTANCE)");
    }
  }
  return Value{draft, problems, filled, path, secret}.name(out, most);
}

bool Value::path_of_file(std::string& out) {
  std::string name;
  if (!text(name)) return false;
  out = name.starts_with('/') || draft.folder.empty() ? name : draft.folder + "/" + name;
  return true;
}

bool Value::file(std::string& out) {
  std::string full;
  if (!path_of_file(full)) return false;
  const std::string why = draft.reads_files_of(path) ? unreadable(full) : "";
  if (!why.empty()) {
    const std::string which = may_quote() ? in_quotes(full) : "the file named by " + in_quotes(node.written);
    const std::string what = which + " cannot be read: " + why;
    if (draft.purpose != ConfigFor::check) return add_error(what);
    problems.warn(node.mark, path + ": " + what + "; `rung run` will not start");
    return false;  // its content cannot be checked
  }
  out = full;
  return true;
}

bool Value::url(std::string& out, const std::vector<std::string>& schemes) {
  if (!expect_scalar("a URL")) return false;
  const auto parsed = parse_url(node.text);
  if (!parsed) return add_error(parsed.error().message);
  if (std::ranges::find(schemes, parsed->scheme) == schemes.end()) {
    std::string what =
        "the URL must begin with " + join(schemes) + (schemes.size() > 1 ? ", followed by ://" : "://");
    if (schemes.front() == "mysql") what += ": the databases supported are MySQL and MariaDB";
    return add_error(std::move(what));
  }
  if (!parsed->query.empty()) return add_error("a ?query in the URL is not supported: use the config keys");
  out = node.text;
  return true;
}

bool Value::urls(std::string& first, std::vector<std::string>& others,
                 const std::vector<std::string>& schemes) {
  std::vector<Node> items = node.items;
  if (node.kind == Node::Kind::text) {
    for (std::string_view rest = node.text;;) {
      const auto comma = rest.find(',');
      Node& item = items.emplace_back(node);
      item.text = rest.substr(0, comma);
      item.text.erase(0, item.text.find_first_not_of(' '));
      item.text.erase(item.text.find_last_not_of(' ') + 1);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else if (node.kind != Node::Kind::list) {
    return node.invalid ? false : add_error("expected a list of URLs: [" + schemes[0] + "://HOST, ...]");
  }
  if (items.empty()) return add_error("the list is empty: at least one URL is required");
  std::vector<std::string> all;
  for (const Node& item : items) {
    const std::string place = "[" + std::to_string(&item - items.data() + 1) + "]";
    Value one{draft, problems, item, path + place, secret};
    if (std::string text; one.url(text, schemes)) all.push_back(std::move(text));
  }
  if (all.size() < items.size()) return false;
  first = std::move(all.front());
  others.assign(std::make_move_iterator(all.begin() + 1), std::make_move_iterator(all.end()));
  return true;
}

bool Value::host_port(std::string& out) {
  if (!expect_scalar("host:port, e.g. 127.0.0.1:8025")) return false;
  const auto parsed = parse_url("tcp://" + node.text);
  const bool good = parsed && parsed->port != 0 && parsed->path.empty() && parsed->user.empty() &&
                    node.text.find_first_of("/@?#") == std::string::npos;
  if (!good) return add_error(shown() + " is not host:port, e.g. 127.0.0.1:8025 or [::1]:8025");
  out = node.text;
  return true;
}

bool Value::list_of_durations(LadderDraft& out) {
  if (node.invalid) return false;
  if (node.kind != Node::Kind::list) {
    return add_error(
        "expected a list of delays, e.g. [5s, 30s, 1m], or { base: 10s, factor: 2, max: 1h, levels: 12 }");
  }
  out.is_list = true;
  bool all = true;
  for (const Node& item : node.items) {
    Value delay{draft, problems, item, path, secret};
    Ms ms{0};
    // The ladder checks for zero and for the order of the delays.
    const bool ok = delay.duration(ms, Ms::zero(), levels::kLongest);
    all = all && ok;
    out.substituted = out.substituted || item.substituted;
    out.delays.push_back(ms);
    out.delay_marks.push_back(item.mark);
  }
  return all;
}

bool Value::patterns(std::vector<std::string>& out) {
  if (node.kind == Node::Kind::list) return list_of_patterns(out);
  std::string one;
  if (!amqp_name(one)) return false;
  out.push_back(std::move(one));
  return true;
}

bool Value::list_of_patterns(std::vector<std::string>& out) {
  if (node.invalid) return false;
  if (node.kind != Node::Kind::list)
    return add_error("expected a list of names, * matches any characters: [orders, \"billing.*\"]");
  bool all = true;
  for (const Node& item : node.items) {
    Value pattern{draft, problems, item, path, secret};
    std::string text;
    if (pattern.amqp_name(text)) {
      out.push_back(std::move(text));
    } else {
      all = false;
    }
  }
  return all;
}

void warn_if_readable(Problems& problems, Mark at, const std::string& file, const std::string& why) {
  constexpr mode_t kOthers = S_IRWXO, kAll = 07777;
  struct stat about {};
  if (stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode) || (about.st_mode & kOthers) == 0) return;
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(about.st_mode & kAll));
  problems.warn(at,
                why + ", and every user of this machine can read " + file + " (mode " + mode.data() +
                    "): chmod 640 " + file + " (or 600)",
                true);
}

}  // namespace rung::confile
