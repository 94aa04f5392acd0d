// A message as a text file for an editor, and back. Thread: pure functions; edit_in_editor() runs a program
// and waits for it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/api/messages/edit.h"
#include "src/core/base/result.h"
#include "src/core/task/task.h"

namespace rung::cli {

// Comments, the headers as JSON, a line that says so, the body. REQUIRES: the body is UTF-8.
std::string edit_text(const Task& task, const Message& message);
// What differs from `before`. A line break that the editor added at the end is not part of the body.
Result<api::Changes> read_edit_text(std::string_view text, const Message& before);

// The text, after $VISUAL or $EDITOR has changed it in a temporary file that only this user may read. `file`:
// its name, before `made_it` is called; the caller removes it.
Result<std::string> edit_in_editor(const std::string& text, std::string& file,
                                   const std::function<void()>& made_it);

}  // namespace rung::cli
