#include "tests/support/program.h"

#include <uv.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <utility>

namespace rung::cli {
namespace {

struct Program {
  Program() : unusable(uv_loop_init(&loop)) { loop.data = this; }
  ~Program() {
    if (unusable != 0) return;
    uv_walk(
        &loop, [](uv_handle_t* handle, void*) { close(handle); }, nullptr);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  template <typename Handle>
  static void close(Handle* handle) {
    auto* const any = reinterpret_cast<uv_handle_t*>(handle);
    if (uv_is_closing(any) == 0) uv_close(any, nullptr);
  }

  uv_loop_t loop{};
  uv_process_t process{};
  uv_timer_t timer{};
  uv_pipe_t out{}, err{};
  std::array<char, 16384> buffer{};
  Ran ran;
  bool killed = false;
  const int unusable;  // 0, or why the loop is: no file descriptor is left
};

template <typename Handle>
Program& program_of(const Handle* handle) {
  return *static_cast<Program*>(handle->loop->data);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// Appends to `text` what is written to the pipe, until all that may write to it have ended.
void read_into(uv_pipe_t& pipe, std::string& text) {
  pipe.data = &text;
  uv_read_start(
      reinterpret_cast<uv_stream_t*>(&pipe),
      [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
        auto& all = program_of(handle).buffer;
        *buffer = uv_buf_init(all.data(), static_cast<unsigned>(all.size()));
      },
      [](uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
        if (count < 0) return Program::close(stream);
        static_cast<std::string*>(stream->data)->append(buffer->base, static_cast<std::size_t>(count));
      });
}

void on_timeout(uv_timer_t* timer) {
  Program& program = program_of(timer);
  program.killed = true;
  kill(-program.process.pid, SIGKILL);
  // A child of it in a session of its own may keep them open.
  Program::close(&program.out);
  Program::close(&program.err);
}

}  // namespace

Result<Ran> run_program(std::vector<std::string> words, Ms timeout) {
  Program program;
  if (program.unusable != 0)
    return transient(words[0] + " could not be started: " + uv_strerror(program.unusable));
  std::array<uv_stdio_container_t, 3> stdio{};
  for (auto [pipe, at] : {std::pair{&program.out, &stdio[1]}, std::pair{&program.err, &stdio[2]}}) {
    uv_pipe_init(&program.loop, pipe, 0);
    at->flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
    at->data.stream = reinterpret_cast<uv_stream_t*>(pipe);
  }
  std::vector<char*> arguments = pointers(words);
  uv_process_options_t options{};
  options.file = arguments[0];
  options.args = arguments.data();
  options.flags = UV_PROCESS_DETACHED;
  options.stdio_count = static_cast<int>(stdio.size());
  options.stdio = stdio.data();
  options.exit_cb = [](uv_process_t* process, std::int64_t code, int signal) {
    program_of(process).ran.exit = signal != 0 ? 128 + signal : static_cast<int>(code);
    Program::close(process);
  };
  const int failed = uv_spawn(&program.loop, &program.process, &options);
  if (failed != 0) return transient(words[0] + " could not be started: " + uv_strerror(failed));
  read_into(program.out, program.ran.out);
  read_into(program.err, program.ran.err);
  uv_timer_init(&program.loop, &program.timer);
  uv_timer_start(&program.timer, on_timeout, static_cast<std::uint64_t>(timeout.count()), 0);
  uv_unref(reinterpret_cast<uv_handle_t*>(&program.timer));  // the program's end is what is waited for
  uv_run(&program.loop, UV_RUN_DEFAULT);
  if (program.killed)
    return transient(words[0] + " did not answer within " + std::to_string(timeout.count()) + " ms");
  return std::move(program.ran);
}

}  // namespace rung::cli
