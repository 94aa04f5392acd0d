// Describes a task for people and for scripts, and finds the one that a command is about. Thread: main's, for
// what prints or asks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "src/cli/shared/command.h"

namespace rung::cli {

// One line: what the task waits for, or how it ended: "scheduled: level 4 of 9, attempt 3 to orders, due
// 2026-... (in 9m12s)". What silence means is known of the details of a task, or if the task has a silence of
// its own.
std::string what_next(const Json& task, EpochMs now);

// The task's target, for one column of a list: "orders", "shop > order.close", "-".
std::string destination(const Json& task);

// Why a task without a body is not sent, and where its message is.
std::string not_stored_text(const Json& task);

// A short form of what_next, for one column: "in 4m12s", "3s late", "silence in 2m".
std::string due_cell(const Json& task, EpochMs now);

// Never throws: invalid UTF-8 is replaced.
std::string dump(const Json& json, bool pretty = true);
int print_json(const Json& json);  // to stdout, and a line end; returns kSuccess
// With --json the answer, else its text; returns kSuccess.
int print_answer(const Json& answer, const std::function<std::string(const Json&)>& text);

// "\nmore tasks match: add --cursor ... for the next page\n"; "" for the last page.
std::string more_text(const std::string& what, const Json& page);

// All of a file's bytes; "-" = stdin.
std::string read_bytes(const std::string& file);

// "/v1/tasks/249107395289088".
std::string path_of(const Json& task);
// The retry-id of the task with this message-id; nullopt: there is none. The command ends if several have it.
std::optional<std::string> id_of_message(Api& api, const std::string& message_id);
Failed no_such_task(const std::string& id);
// The details of a task by its retry-id or, if there is none, by message-id: then of the newest, and if there
// are others that is said, or with `one` the command ends.
Json find_task(Session& session, const std::string& id, bool one = false);

// "queue orders: breaker open until ...": what holds tasks back, and the command that ends it.
std::string held_text(const Json& gate);
// what_next(), and what holds it back; asks for what the task does not say of it.
std::string next_of(Session& session, Json task);
// The same of a change for scripts: {retry_id, result, reason, task}.
Json result_json(const std::string& id, std::string_view result, const std::string& reason, const Json& task);
// Prints that of a task that was created, or was there; returns kSuccess.
int tell_result(Session& session, const Json& result);
// What a change of a task prints: its retry-id, next_of() and, if it changed nothing, why; a line.
std::string changed_line(Session& session, const std::string& id, const Json& task,
                         const std::string& unchanged_because);

// Of a cause, for people: its type, and the first line of its error.
std::string cause_name(const Json& cause);

}  // namespace rung::cli
