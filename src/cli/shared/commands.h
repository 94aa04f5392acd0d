// Each adds its commands to the program; they store their exit code in `*exit`, which must outlive `app`.
// Thread: main's.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rung::cli {

void add_run(CLI::App& app, int* exit);
void add_check(CLI::App& app, int* exit);
void add_reload(CLI::App& app, int* exit);
void add_migrate(CLI::App& app, int* exit);
void add_adopt(CLI::App& app, int* exit);
void add_attach(CLI::App& app, int* exit);
void add_detach(CLI::App& app, int* exit);
void add_attached(CLI::App& app, int* exit);
void add_dialects(CLI::App& app, int* exit);
void add_doctor(CLI::App& app, int* exit);
void add_list(CLI::App& app, int* exit);
void add_show(CLI::App& app, int* exit);
void add_history(CLI::App& app, int* exit);
void add_audit(CLI::App& app, int* exit);
void add_submit(CLI::App& app, int* exit);
void add_changes(CLI::App& app, int* exit);  // cancel, discard, reschedule, fire, retry, redrive, finish
void add_edit(CLI::App& app, int* exit);
void add_bulk(CLI::App& app, int* exit);
void add_causes(CLI::App& app, int* exit);
void add_pause(CLI::App& app, int* exit);  // pause, resume, queues
void add_stats(CLI::App& app, int* exit);
void add_nodes(CLI::App& app, int* exit);
void add_healthcheck(CLI::App& app, int* exit);

}  // namespace rung::cli
