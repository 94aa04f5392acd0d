// URLs of brokers and databases, and how they are shown without their password.
// Input: a URL; or, after a 'p', a password for one.
#include "src/core/base/url.h"
#include "tests/fuzz/fuzz.h"

namespace {

using rung::fuzz::hold;

void url(std::string_view text) {
  const std::string shown = rung::hide_password(text);
  const auto parsed = rung::parse_url(text);
  if (!parsed) {
    hold(!parsed.error().message.empty() && parsed.error().message.size() < 300,
         "an error is a short sentence");
    return;
  }
  const std::string printed = rung::format_url(*parsed);
  const auto again = rung::parse_url(printed);
  hold(again && *again == *parsed, "a URL prints as what parses to the same", printed);
  if (const auto hidden = rung::parse_url(shown))
    hold(parsed->password.empty() || hidden->password == "***", "no password is shown", shown);
}

// Whatever the password is, the URL with it is read, and shown without it.
void password(std::string_view text) {
  const std::string secret = std::string(text.substr(0, text.find('\0'))) + "+$3cr3t";
  rung::Url made;
  made.scheme = "amqp";
  made.user = "u";
  made.password = secret;
  made.host = "h";
  const std::string printed = rung::format_url(made);
  const auto parsed = rung::parse_url(printed);
  hold(parsed && *parsed == made, "any password goes into a URL", printed);
  hold(rung::hide_password(printed) == "amqp://u:***@h", "and is not shown", printed);
  // As somebody writes it who doesn't know of percents: taken or not, it isn't shown.
  const std::string raw = "amqp://u:" + secret + "@h/v";
  hold(rung::hide_password(raw).find("$3cr3t") == std::string::npos, "nor a raw one", raw);
  const auto refused = rung::parse_url(raw);
  hold(refused || refused.error().message.find("$3cr3t") == std::string::npos, "nor in an error", raw);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = rung::fuzz::text_of(data, size);
  if (text.starts_with('p')) password(text.substr(1));
  url(text);
  return 0;
}
