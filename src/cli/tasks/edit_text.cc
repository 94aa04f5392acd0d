#include "src/cli/tasks/edit_text.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/api/messages/headers.h"
#include "src/cli/shared/text.h"
#include "src/cli/tasks/submit_request.h"
#include "src/core/message/message_json.h"
#include "src/io/program.h"

namespace rung::cli {
namespace {

constexpr std::string_view kBodyLine = "---- body: all that is below this line ----";

std::string headers_text(const Message& message) {
  if (!message.headers) return "{}";
  const auto json = api::Json::parse(headers_to_json(*message.headers), nullptr, false);
  return json.is_discarded() ? "{}" : json.dump(2, ' ', false, api::Json::error_handler_t::replace);
}

// The lines above the body; comments are empty lines, so that line numbers stay right.
std::string without_comments(std::string_view head) {
  std::string out;
  for (std::size_t at = 0; at < head.size();) {
    const std::size_t end = std::min(head.find('\n', at), head.size());
    const std::string_view line = head.substr(at, end - at);
    if (!line.starts_with('#')) out += line;
    out += '\n';
    at = end + 1;
  }
  return out;
}

// As a shell runs it: $EDITOR may have options.
Result<void> run_editor(const std::string& editor, const std::string& file) {
  const auto exit = io::run_at_terminal({"/bin/sh", "-c", editor + " \"$1\"", "sh", file});
  if (!exit) return permanent("cannot run the editor: " + exit.error().message);
  if (*exit == 0) return {};
  return permanent("the editor (" + one_line(editor) + ") failed: nothing was sent");
}

}  // namespace

std::string edit_text(const Task& task, const Message& message) {
  return "# rung edit " + task.id.str() +
         ": save and quit to send this in place of the parked message; leave it as it is to send nothing.\n"
         "# Headers, as JSON; {\"!i32\": 5} and the like are types of AMQP. Lines that begin with # are "
         "ignored; below the dashes all is body.\n" +
         headers_text(message) + "\n" + std::string(kBodyLine) + "\n" + message.body.str();
}

Result<api::Changes> read_edit_text(std::string_view text, const Message& before) {
  const std::string line = "\n" + std::string(kBodyLine) + "\n";
  const std::size_t at = text.find(line);
  if (at == std::string_view::npos)
    return permanent("the line '" + std::string(kBodyLine) + "' is missing: it divides headers and body");
  const std::string head = without_comments(text.substr(0, at + 1));
  if (const std::string where = api::where_not_json(head); !where.empty())
    return permanent("headers: " + where + ": not JSON");
  auto json = api::parse_json(head);
  if (!json) return permanent("headers: " + json.error().message);
  api::Changes changes;
  if (json->dump(2, ' ', false, api::Json::error_handler_t::replace) != headers_text(before)) {
    auto headers = api::headers_of(*json);
    if (!headers) return permanent("headers: " + headers.error().message);
    changes.headers = *std::move(headers);
  }
  std::string body(text.substr(at + line.size()));
  if (body == before.body.str() + "\n") body.pop_back();
  if (body.ends_with('\n') && !before.body.str().ends_with('\n')) body.pop_back();
  if (body != before.body.str()) changes.body = std::move(body);
  return changes;
}

Result<std::string> edit_in_editor(const std::string& text, std::string& file,
                                   const std::function<void()>& made_it) {
  const char* editor = std::getenv("VISUAL");
  if (editor == nullptr || *editor == '\0') editor = std::getenv("EDITOR");
  if (editor == nullptr || *editor == '\0')
    return permanent(
        "no editor: set VISUAL (VISUAL=nano rung edit ...), or use --body FILE and --set-header");
  const char* folder = std::getenv("TMPDIR");
  std::string name =
      std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/rung-edit-XXXXXX";
  const int made = mkstemp(name.data());  // with mode 0600
  if (made < 0) return permanent("cannot create " + name + ": " + std::strerror(errno));
  close(made);
  file = name;
  made_it();
  std::ofstream out(file, std::ios::binary);
  if (!(out << text) || !out.flush()) return permanent("cannot write " + file);
  out.close();
  if (auto run = run_editor(editor, file); !run) return tl::unexpected(run.error());
  return read_bytes(file);
}

}  // namespace rung::cli
