// rung edit: a parked task goes out again with another body or other headers, as a new task.
#include "src/api/messages/edit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "plugin/rabbitmq/topology/attachment.h"  // shell_quote()
#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/api/messages/submission.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/result.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/by_hand.h"
#include "src/core/message/message.h"
#include "src/core/task/task.h"

namespace rung::cli {

namespace {

constexpr std::string_view kBodyLine = "---- body: all that is below this line ----";

std::string headers_text(const Message& message) {
  if (!message.headers) return "{}";
  const auto json = Json::parse(headers_to_json(*message.headers), nullptr, false);
  return json.is_discarded() ? "{}" : json.dump(2, ' ', false, Json::error_handler_t::replace);
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

// By a shell: $EDITOR may have options. Ctrl-C is for the editor alone: std::system() ignores it here.
Result<void> run_editor(const std::string& editor, const std::string& file) {
  std::signal(SIGPIPE, SIG_DFL);  // else the editor and what it starts inherit that it is ignored
  const int ended = std::system((editor + " " + rabbit::shell_quote(file)).c_str());
  std::signal(SIGPIPE, SIG_IGN);
  if (ended == -1) return permanent("cannot run the editor: " + std::string(std::strerror(errno)));
  if (ended == 0) return {};
  return permanent("the editor (" + one_line(editor) + ") failed: nothing was sent");
}

// Comments, the headers as JSON, a line that says so, the body. REQUIRES: the body is UTF-8.
std::string edit_text(const Task& task, const Message& message) {
  return "# rung edit " + task.id.str() +
         ": save and quit to send this in place of the parked message; leave it as it is to send nothing.\n"
         "# Headers, as JSON; {\"!i32\": 5} and the like are types of AMQP. Lines that begin with # are "
         "ignored; below the dashes all is body.\n" +
         headers_text(message) + "\n" + std::string(kBodyLine) + "\n" + message.body.str();
}

// What differs from `before`. A line break that the editor added at the end is not part of the body, nor is
// the CR of an editor that ends all lines with CR LF.
Result<api::Changes> read_edit_text(std::string_view text, const Message& before) {
  const std::string line = "\n" + std::string(kBodyLine);
  const std::size_t at = text.find(line);
  std::string body(at == std::string_view::npos ? "" : text.substr(at + line.size()));
  const bool has_cr = body.starts_with("\r\n");
  if (!has_cr && !body.starts_with('\n'))
    return permanent("the line '" + std::string(kBodyLine) + "' is missing: it divides headers and body");
  auto json = api::parse_json(without_comments(text.substr(0, at + 1)));
  if (!json) return permanent("headers: " + json.error().message);
  api::Changes changes;
  if (json->dump(2, ' ', false, Json::error_handler_t::replace) != headers_text(before)) {
    auto headers = api::headers_of(*json);
    if (!headers) return permanent("headers: " + headers.error().message);
    changes.headers = *std::move(headers);
  }
  const std::string& was = before.body.str();
  body.erase(0, has_cr ? 2 : 1);
  if (has_cr && was.find('\r') == std::string::npos) std::erase(body, '\r');
  const std::string end = body.ends_with("\r\n") ? "\r\n" : "\n";
  if (body == was + end || (body.ends_with(end) && !was.ends_with('\n')))
    body.resize(body.size() - end.size());
  if (body != was) changes.body = std::move(body);
  return changes;
}

// The text, after $VISUAL or $EDITOR has changed it in a temporary file that only this user may read. `file`:
// its name, before `made_it` is called; the caller removes it.
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

struct EditOptions {
  std::string id, body, reason;
  std::vector<std::string> set, unset;
  bool yes = false;
  bool by_flags() const { return !body.empty() || !set.empty() || !unset.empty(); }
};

template <typename T>
std::optional<T> number_in(const std::string& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// A number or true/false keeps its type; a text stays one, and may take the place of anything that is no
// number.
Result<Value> value_like(const std::string& name, const Value* before, const std::string& text) {
  if (before == nullptr) return Value(text);
  return std::visit(
      [&](const auto& was) -> Result<Value> {
        using T = std::remove_cvref_t<decltype(was)>;
        if constexpr (std::is_same_v<T, bool>) {
          if (text == "true" || text == "false") return Value(text == "true");
        } else if constexpr (std::is_floating_point_v<T>) {
          if (const auto number = number_in<T>(text)) return Value(*number);
        } else if constexpr (std::is_integral_v<T>) {
          const auto number = number_in<std::int64_t>(text);
          if (number && std::in_range<T>(*number)) return Value(static_cast<T>(*number));
          if (number)
            return permanent("--set-header: " + text + " does not fit the type of the header '" + name +
                             "': use the editor to give it another one");
        }
        return Value(text);
      },
      before->v);
}

Result<api::Changes> changes_by_flags(const EditOptions& o, const Message& message) {
  api::Changes changes;
  if (!o.body.empty()) {
    auto bytes = read_bytes(o.body);
    if (!bytes) return tl::unexpected(bytes.error());
    changes.body = *std::move(bytes);
  }
  for (const std::string& pair : o.set) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return permanent("--set-header: '" + one_line(pair) + "' is not NAME=VALUE");
    const std::string name = pair.substr(0, equals), value = pair.substr(equals + 1);
    if (!is_utf8(pair)) return permanent("--set-header: '" + clean_utf8(name, 60) + "' is not UTF-8");
    auto typed = value_like(name, find(message.headers, name), value);
    if (!typed) return tl::unexpected(typed.error());
    changes.set.emplace_back(name, *std::move(typed));
  }
  changes.unset = o.unset;
  return changes;
}

// The file of the editor, for the signal handler.
std::array<char, 4096> editor_file{};

// The file holds a message. Ctrl-C keeps what a person has written, and says where; other signals remove it.
void on_signal(int number) {
  if (number == SIGINT) {
    constexpr std::string_view kKept = "\nrung: nothing was sent; your text is kept: ";
    (void)!write(STDERR_FILENO, kKept.data(), kKept.size());
    (void)!write(STDERR_FILENO, editor_file.data(), std::strlen(editor_file.data()));
    (void)!write(STDERR_FILENO, "\n", 1);
  } else {
    unlink(editor_file.data());
  }
  signal(number, SIG_DFL);
  raise(number);
}

// Removes the file, unless it keeps what a person has written.
struct EditorFile {
  std::string name;
  bool keep = false;
  // Once the file exists.
  void guard() const {
    name.copy(editor_file.data(), editor_file.size() - 1);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, on_signal);
  }
  ~EditorFile() {
    std::error_code ignored;
    if (!name.empty() && !keep) std::filesystem::remove(name, ignored);
  }
};

int report_errors(const api::FieldErrors& errors) {
  for (const auto& [field, detail] : errors) {
    const std::string option = field == "set_headers"     ? "--set-header"
                               : field == "unset_headers" ? "--unset-header"
                                                          : field;
    report_error(kUserError, option + ": " + detail);
  }
  return kUserError;
}

Result<MessagePtr> read_message(const Json& json) {
  auto message = std::make_shared<Message>();
  auto properties = properties_from_json(dump(part_of(json, "properties"), false));
  if (!properties) return tl::unexpected(properties.error());
  message->properties = *std::move(properties);
  if (const Json& headers = part_of(json, "headers"); !headers.is_null()) {
    auto table = headers_from_json(dump(headers, false));
    if (!table) return tl::unexpected(table.error());
    message->headers = *std::move(table);
  }
  auto body = api::from_base64(text_of(json, "body_base64"));
  if (!body) return permanent("the message of the answer is not as Rung writes it");
  message->body = *std::move(body);
  return MessagePtr(std::move(message));
}

// The task, and of it what an edit needs.
struct Parked {
  Json task;
  api::Original original;
};

Result<Parked> read_parked(Api& api, const std::string& id) {
  bool more = false;
  auto task = find_task(api, id, more);
  if (!task) return tl::unexpected(task.error());
  if (more) return tl::unexpected(id_of_message(api, id).error());
  const auto message = api.call_patiently("GET", path_of(*task) + "/message");
  if (!message) return tl::unexpected(message.error());
  if (message->status == 404)
    return not_found("the message of task " + text_of(*task, "retry_id") + " has been deleted");
  if (message->status == 403) return tl::unexpected(Error{Error::Kind::refused, message->text("detail")});
  if (!message->good()) return tl::unexpected(error_of(*message));
  auto read = read_message(message->json);
  if (!read) return tl::unexpected(read.error());
  Parked out{*std::move(task), {{}, *std::move(read), ""}};
  Task& t = out.original.row.task;
  t.id = id_of(out.task);
  t.state = state_of(out.task);
  t.version = static_cast<std::uint32_t>(number_of(out.task, "version"));
  t.body_bytes = number_of(out.task, "body_bytes");
  t.replaced_by = TaskId::parse(text_of(out.task, "replaced_by")).value_or(TaskId{});
  return out;
}

// What shall change.
struct Edit {
  Result<api::Changes> changes = api::Changes{};
  MessagePtr message;  // edited; nullptr: the exit code is set
};

Edit edit(const EditOptions& o, const api::Original& original, EditorFile& file, int& code) {
  const Message& before = *original.message;
  Edit out;
  auto& changes = out.changes;
  if (o.by_flags()) {
    changes = changes_by_flags(o, before);
  } else {
    if (!is_utf8(before.body.str())) {
      code = report_error(kUserError, "its body is not text: give another one with --body FILE");
      return out;
    }
    const auto text = edit_in_editor(edit_text(original.row.task, before), file.name, [&] { file.guard(); });
    changes = text ? read_edit_text(*text, before) : Result<api::Changes>(tl::unexpected(text.error()));
    file.keep = text.has_value();
    if (changes && !changes->body && !changes->headers) {
      file.keep = false;
      code = report_error(kUserError, "nothing was changed: nothing is sent");
      return out;
    }
  }
  if (!changes) {
    code = report_error(changes.error());
    return out;
  }
  api::FieldErrors errors;
  out.message = api::edited_message(original, *changes, rabbit::reserved_headers(), errors);
  if (out.message == nullptr) code = report_errors(errors);
  return out;
}

std::string cell(const Message& message, const std::string& name) {
  const Value* value = find(message.headers, name);
  if (value == nullptr) return "(none)";
  const Json json = Json::parse(headers_to_json({{"v", *value}}), nullptr, false)["v"];
  return clean_utf8(one_line(json.is_string() ? json.get<std::string>() : dump(json, false)), 200);
}

std::string summary(const Message& before, const Message& after) {
  const Json is = Json::parse(difference(before, after).after, nullptr, false);
  std::string out;
  if (is.contains("body_bytes"))
    out += fmt::format("  body: {} bytes -> {} bytes\n", before.body.size(), after.body.size());
  if (!is.contains("headers")) return out;
  for (const auto& [name, how] : is["headers"].items())
    out += how.is_number()
               ? fmt::format("  and {} more headers\n", dump(how, false))
               : fmt::format("  {}: {} -> {}\n", one_line(name), cell(before, name), cell(after, name));
  return out;
}

bool confirmed(const Parked& parked, const Message& edited) {
  const std::string question = fmt::format(
      "{}send it to {} as a new task, in place of {}? [y/N] ", summary(*parked.original.message, edited),
      one_line(destination(parked.task)), one_line(text_of(parked.task, "retry_id")));
  return says_yes(question);
}

// What the editor left of the headers, as what to set and what to remove.
api::Changes by_names(const rung::Table& before, const rung::Table& after) {
  api::Changes changes;
  for (const auto& [name, value] : after) {
    const Value* was = find(before, name);
    if (was == nullptr || !(*was == value)) changes.set.emplace_back(name, value);
  }
  for (const auto& [name, value] : before) {
    if (find(after, name) == nullptr) changes.unset.push_back(name);
  }
  return changes;
}

Json request_of(const EditOptions& o, const api::Original& original, const api::Changes& changes) {
  Json body = {{"version", original.row.task.version}};
  if (!o.reason.empty()) body["reason"] = clean_utf8(o.reason, kErrorBytes);
  if (changes.body) body["body_base64"] = api::to_base64(*changes.body);
  const api::Changes headers =
      changes.headers ? by_names(original.message->headers.value_or(rung::Table{}), *changes.headers)
                      : changes;
  if (!headers.set.empty()) body["set_headers"] = Json::parse(headers_to_json(headers.set), nullptr, false);
  if (!headers.unset.empty()) body["unset_headers"] = headers.unset;
  return body;
}

// `task`: the new one, or the original.
int tell(Session& session, const EditOptions& o, const char* result, const std::string& reason,
         const Json& task) {
  const bool good = std::string_view(result) != "refused";
  if (given().json)
    print_json({{"retry_id", good ? part_of(task, "retry_id") : Json()},
                {"result", result},
                {"reason", api::text_or_null(reason)},
                {"task", task}});
  if (!good) return report_error(task.is_null() ? kNotFound : kUserError, o.id + ": " + reason);
  if (!given().json) print(changed_line(session, text_of(task, "retry_id"), task, reason));
  return kSuccess;
}

int send(Session& session, const EditOptions& o, const Parked& parked, const api::Changes& changes) {
  if (auto now = session.api->now()) session.now = *now;
  const Json body = request_of(o, parked.original, changes);
  const auto answer = session.api->call("POST", path_of(parked.task) + "/edit", &body);
  if (!answer) return report_error(answer.error());
  if (answer->status == 201) return tell(session, o, "created", "", answer->json);
  if (answer->good())
    return tell(session, o, "duplicate", api::same_edit_text(id_of(answer->json)), answer->json);
  api::FieldErrors errors;
  for (const Json& one : part_of(answer->json, "errors")) {
    // In the editor there are headers.
    const std::string field = text_of(one, "field");
    errors.push_back(
        {changes.headers && field.ends_with("_headers") ? "headers" : field, text_of(one, "detail")});
  }
  if (!errors.empty()) return report_errors(errors);
  const auto task = session.api->get(path_of(parked.task));
  if (!task && task.error().kind != Error::Kind::not_found) return report_error(task.error());
  const std::string why = answer->status == 404 ? std::string(kNoSuchTask) : answer->text("detail");
  return tell(session, o, "refused", why, task ? *task : Json());
}

int run(const EditOptions& o) {
  Session session;
  if (const int code = open_service(session); code != kSuccess) return code;
  const auto parked = read_parked(*session.api, o.id);
  if (!parked) return report_error(parked.error());
  // By flags a repeat of an edit is recognised below.
  const Task& task = parked->original.row.task;
  const std::string why = why_not_editable(task);
  if (!why.empty() && !(o.by_flags() && task.replaced_by.value != 0))
    return report_error(kUserError, o.id + ": " + why);
  EditorFile file;
  int code = kUserError;
  const Edit edited = edit(o, parked->original, file, code);
  const bool can_ask = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  if (edited.message != nullptr && !o.yes && can_ask && o.body != "-" && !confirmed(*parked, *edited.message))
    code = report_error(kUserError, "nothing was sent");
  else if (edited.message != nullptr)
    code = send(session, o, *parked, *edited.changes);
  if (code == kSuccess) file.keep = false;
  if (file.keep)
    report_error(kUserError,
                 fmt::format("your text is kept: VISUAL='cp {0}' rung edit {1} takes it as it is, "
                             "VISUAL='cp {0} \"$1\"; vi' edits it",
                             file.name, o.id));
  return code;
}

}  // namespace

void add_edit(CLI::App& app, int* exit) {
  auto o = std::make_shared<EditOptions>();
  CLI::App& c = add_command(
      app, "edit", "Sends a parked task again with another body or other headers, as a new task",
      "Examples:\n"
      "  VISUAL=nano rung edit 249107395289088                   headers and body in an editor\n"
      "  rung edit 249107395289088 --body fixed.json --reason \"city was missing\"\n"
      "  rung edit 249107395289088 --set-header tenant=acme --unset-header x-debug --yes\n"
      "  rung show 249107395289088 --raw | jq '.city = \"Ulm\"' | rung edit 249107395289088 --body -\n"
      "The new task is due now, as after a redrive. The parked one is discarded, says `replaced by` and is "
      "not "
      "redriven.\n"
      "Repeating an edit returns the same new task. Properties stay as they are; a JSON body is checked.");
  c.add_option("ID", o->id, "A retry-id or message-id, as listed by rung list")->required();
  c.add_option("--body", o->body, "The new body is in this file; - is stdin")->type_name("FILE");
  c.add_option("--set-header", o->set,
               "Add or change a header; can be repeated. A number or true/false keeps its type")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  c.add_option("--unset-header", o->unset, "Remove a header; can be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  c.add_option("--reason", o->reason, "Why; recorded in the task's audit")->type_name("TEXT");
  c.add_flag("-y,--yes", o->yes, "Do not ask for confirmation on a terminal");
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
