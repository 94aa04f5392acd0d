// The readers of each type of value.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "src/config/load.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/url.h"

namespace rung::confile {
namespace {

// "a, b or c"
std::string join(const Texts& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

bool is_kind(const Value& v, Node::Kind kind, std::string_view wanted, std::size_t most = 0) {
  if (v.node.invalid) return false;
  if (v.node.kind == kind) {
    const bool fits = most == 0 || v.node.items.size() + v.node.entries.size() <= most;
    if (!fits) v.wrong(fmt::format("at most {} are allowed", most));
    return fits;
  }
  const std::string expected = "expected " + std::string(wanted);
  if (kind != Node::Kind::text) {
    v.wrong(expected);
  } else if (v.node.kind == Node::Kind::nothing) {
    v.wrong("missing value: " + expected);
  } else {
    v.wrong(expected + (v.node.kind == Node::Kind::list ? ", found a list" : ", found keys"));
  }
  return false;
}

// Once a file. `what`: of it is secret.
void warn_if_readable(const Value& v, const std::string& file, const std::string& what) {
  constexpr mode_t kOthers = S_IRWXO, kAll = 07777;
  struct stat about {};
  if (!v.load.reports_warnings() || stat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode) ||
      (about.st_mode & kOthers) == 0 || !v.load.open_secrets.insert(file).second)
    return;
  v.load.problems.warn(v.node.mark, fmt::format("{} {}, and every user of this machine can read {} (mode "
                                                "{:04o}): chmod 640 {} (or 600)",
                                                v.node.path, what, file, about.st_mode & kAll, file));
}

Reader<Url> one_address(const Texts& schemes) {
  return url(schemes)
      .to([](const std::string& text) { return *parse_url(text); })
      .where([](const Url& url) { return url.scheme != "mysql" || !(url.path.empty() || url.user.empty()); },
             "the user or the schema is missing: mysql://user:password@host:port/schema");
}

}  // namespace

std::nullopt_t Value::wrong(const std::string& what) const {
  load.wrong(node, "", what);
  return std::nullopt;
}

std::string Value::shown() const {
  if (secret) return "the value";
  return node.substituted ? "the value of " + in_quotes(node.written) : in_quotes(node.text);
}

bool Value::is_text(std::string_view wanted) const { return is_kind(*this, Node::Kind::text, wanted); }
bool Value::is_list(std::string_view wanted, std::size_t most) const {
  return is_kind(*this, Node::Kind::list, wanted, most);
}
bool Value::is_map(std::string_view wanted, std::size_t most) const {
  return is_kind(*this, Node::Kind::map, wanted, most);
}

Reader<std::string> text(std::size_t most) {
  return {"text", [=](Value& v) -> std::optional<std::string> {
            if (!v.is_text("a string")) return std::nullopt;
            if (v.node.text.empty()) return v.wrong("must not be empty");
            if (v.node.text.find('\0') != std::string::npos) return v.wrong("must not contain a NUL byte");
            if (v.node.text.size() > most) return v.wrong(fmt::format("at most {} bytes are allowed", most));
            return v.node.text;
          }};
}

Reader<std::string> amqp_name() { return text(255).as("name"); }

Reader<Ms> duration(Ms least, Ms most) {
  return {
      "duration", [=](Value& v) -> std::optional<Ms> {
        if (!v.is_text("a duration, e.g. 30s or 1h30m")) return std::nullopt;
        const auto parsed = levels::parse_duration(v.node.text);
        if (!parsed) {
          if (v.may_quote()) return v.wrong(in_quotes(v.node.text) + ": " + parsed.error());
          // The parser's error would quote a part of it.
          return v.wrong(v.shown() +
                         " is not a duration: a number and a unit (ms, s, m, h, d), e.g. 30s, 5m or 1h30m");
        }
        if (*parsed < least)
          return v.wrong(v.shown() + " is too short: at least " + levels::format_duration(least));
        if (*parsed > most)
          return v.wrong(v.shown() + " is too long: at most " + levels::format_duration(most));
        return *parsed;
      }};
}

Reader<Ms> whole_seconds(Ms least, Ms most) {
  return duration(least, most)
      .where([](Ms value) { return value.count() % 1000 == 0; },
             " is not a whole number of seconds, e.g. 10s")
      .as("whole seconds");
}

Reader<int> integer(int least, int most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return {range, [=](Value& v) -> std::optional<int> {
            const std::string wanted = "an integer from " + range;
            if (!v.is_text(wanted)) return std::nullopt;
            const auto value = number_from<int>(v.node.text);
            if (!value || *value < least || *value > most) return v.wrong(v.shown() + " is not " + wanted);
            return value;
          }};
}

Reader<double> number() {
  return {"number", [](Value& v) -> std::optional<double> {
            constexpr std::string_view kWanted = "a number, e.g. 2 or 1.5";
            if (!v.is_text(kWanted)) return std::nullopt;
            // number_from() takes "inf" and "nan" too, which are no numbers here.
            const std::string& text = v.node.text;
            const bool plain = text.find_first_not_of("0123456789.") == std::string::npos;
            const auto value = plain ? number_from<double>(text) : std::nullopt;
            return value ? value : v.wrong(v.shown() + " is not " + std::string(kWanted));
          }};
}

Reader<double> percent_or_off() {
  return {"off, or 0% to 100%", [](Value& v) -> std::optional<double> {
            const std::string wanted = "off, or a percentage from 0% to 100%, e.g. 20%";
            if (!v.is_text(wanted)) return std::nullopt;
            if (v.node.text == "off") return 0.0;
            std::string_view digits = v.node.text;
            const bool has_sign = digits.ends_with('%');
            if (has_sign) digits.remove_suffix(1);
            const auto percent = has_sign ? number_from<int>(digits) : std::nullopt;
            if (!percent || *percent < 0 || *percent > 100) return v.wrong(v.shown() + " is not " + wanted);
            return *percent / 100.0;
          }};
}

Reader<bool> boolean() { return choice<bool>({{"true", true}, {"false", false}}); }

Reader<std::string> choice(const Texts& words) {
  return {join(words), [words](Value& v) -> std::optional<std::string> {
            if (!v.is_text(join(words))) return std::nullopt;
            if (std::ranges::find(words, v.node.text) != words.end()) return v.node.text;
            return v.wrong(v.shown() + " is not " + join(words) +
                           (v.may_quote() ? did_you_mean(v.node.text, words) : ""));
          }};
}

Reader<std::string> name(std::size_t most) {
  return text(most).where(is_plain, " has invalid characters: use letters, digits and . _ -").as("name");
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Reader<std::string> file() {
  return {"file", [](Value& v) -> std::optional<std::string> {
            auto full = text()(v);
            if (!full) return full;
            if (!full->starts_with('/') && !v.load.folder.empty()) *full = v.load.folder + "/" + *full;
            const auto start =
                v.load.reads_files_of(v.node.path) ? read_start(*full, 1) : Result<std::string>();
            if (start) return full;
            const std::string which =
                v.may_quote() ? in_quotes(*full) : "the file named by " + in_quotes(v.node.written);
            const std::string what = which + " " + start.error().message;
            if (v.load.purpose != ConfigFor::check) return v.wrong(what);
            v.load.warn(v.node, "", what + "; `rung run` will not start");
            return std::nullopt;  // its content cannot be checked
          }};
}

Reader<std::string> secret_file() {
  return {"file", [read = file()](Value& v) {
            const auto path = read(v);
            if (path) warn_if_readable(v, *path, "is secret");
            return path;
          }};
}

Reader<std::string> url(const Texts& schemes) {
  return {"URL", [schemes](Value& v) -> std::optional<std::string> {
            if (!v.is_text("a URL")) return std::nullopt;
            const auto parsed = parse_url(v.node.text);
            if (!parsed) return v.wrong(parsed.error().message);
            if (std::ranges::find(schemes, parsed->scheme) == schemes.end())
              return v.wrong(
                  "the URL must begin with " + join(schemes) +
                  (schemes.size() > 1 ? ", followed by ://" : "://") +
                  (schemes.front() == "mysql" ? ": the databases supported are MySQL and MariaDB" : ""));
            if (!parsed->query.empty())
              return v.wrong("a ?query in the URL is not supported: use the config keys");
            if (v.secret && !v.node.substituted && !parsed->password.empty())
              warn_if_readable(v, v.load.problems.file(), "contains a password");
            return v.node.text;
          }};
}

Reader<Urls> address(const Texts& schemes) {
  return one_address(schemes).to([](Url url) { return Urls{std::move(url)}; });
}

std::string place_of(const Url& url) {
  return url.host_port(url.scheme == "mysql" ? 3306 : url.scheme == "amqps" ? 5671 : 5672);
}

Reader<Urls> addresses(const Texts& schemes) {
  return {"list of URLs", [schemes, one = one_address(schemes)](Value& v) -> std::optional<Urls> {
            if (v.node.kind == Node::Kind::text && !v.node.invalid) {
              const Node whole = v.node;
              v.node.kind = Node::Kind::list;
              for (std::string_view rest = whole.text;;) {
                const auto comma = rest.find(',');
                Node& item = v.node.items.emplace_back(whole);
                item.text = rest.substr(0, comma);
                item.text.erase(0, item.text.find_first_not_of(' '));
                item.text.erase(item.text.find_last_not_of(' ') + 1);
                if (comma == std::string_view::npos) break;
                rest.remove_prefix(comma + 1);
              }
            }
            if (!v.is_list("a list of URLs: [" + schemes[0] + "://HOST, ...]")) return std::nullopt;
            if (v.node.items.empty()) return v.wrong("the list is empty: at least one URL is required");
            Urls before;
            return v.each([&, n = 0](Value& item) mutable -> std::optional<Url> {
              item.node.path += fmt::format("[{}]", ++n);
              auto url = one(item);
              if (!url) return url;
              for (const Url& other : before) {
                if (other.scheme != url->scheme || other.vhost() != url->vhost())
                  return item.wrong(
                      "another scheme, virtual host or schema than in those before: all "
                      "addresses must belong to one service");
                if (place_of(other) == place_of(*url))
                  return item.wrong("the same host and port as one before: remove it");
              }
              before.push_back(*url);
              return url;
            });
          }};
}

Reader<Url> host_port() {
  const auto fits = [](const std::string& text) {
    const auto parsed = parse_url("tcp://" + text);
    return parsed && parsed->port != 0 && parsed->path.empty() && parsed->user.empty() &&
           text.find_first_of("/@?#") == std::string::npos;
  };
  return text()
      .where(fits, " is not host:port, e.g. 127.0.0.1:8025 or [::1]:8025")
      .as("host:port")
      .to([](const std::string& text) { return *parse_url("tcp://" + text); });
}

Reader<Texts> names() {
  return list_of("list of names", "a list of names, * matches any characters: [orders, \"billing.*\"]",
                 amqp_name());
}

}  // namespace rung::confile
