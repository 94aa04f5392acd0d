// A task's message has come back with other headers or properties. Call only inside Session::transaction(),
// with the task's row locked.
#pragma once

#include "src/core/message/message.h"
#include "src/core/task/task.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {

// Writes `message`, which has the same body, to the row of `task`. What the row had before is added to its
// origin.
void replace_message(Session& session, const Task& task, const Message& message);

}  // namespace rung::mysql
