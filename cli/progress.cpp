#include "cli/progress.hpp"

#include "cli/captured_output.hpp"
#include "cli/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <unistd.h>

namespace stagger::cli {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) != 0), began_(seconds()) {
  if (CapturedOutput::is_there()) return;
  try {
    teller_ = std::thread([this] { tell(); });
  } catch (const std::system_error&) {
    // The system has no thread for it: nothing is told, and the work goes on.
  }
}

Progress::~Progress() {
  end();
}

void Progress::show(const std::string& what, double fraction) {
  show(fmt::format("{}: {:.0f} %", what, 100 * fraction));
}

void Progress::show(const std::string& what) {
  const std::lock_guard lock(mutex_);
  shown_ = what;
}

void Progress::end() {
  if (!teller_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  teller_.join();
  if (drawn_ && terminal_) static_cast<void>(std::fputs("\r\033[K", stderr));
}

/// Runs beside the work until it ends.
void Progress::tell() {
  const std::chrono::duration<double> every(terminal_ ? 0.2 : 10.0);
  const double quiet = terminal_ ? 0.5 : 0.0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, every, [this] { return ended_; })) {
    const double taken = seconds() - began_;
    if (taken >= quiet && !shown_.empty()) draw(taken);
  }
}

void Progress::draw(double taken) {
  std::string line = fmt::format("{}, {:.0f} s", shown_, taken);
  if (terminal_) {
    // A line that is broken could not be drawn over.
    line.resize(std::min(line.size(), static_cast<std::size_t>(terminal_width(STDERR_FILENO) - 1)));
    line = "\r" + line + "\033[K";
  } else {
    line = "stagger: " + line + "\n";
  }
  static_cast<void>(std::fputs(line.c_str(), stderr));
  static_cast<void>(std::fflush(stderr));
  drawn_ = true;
}

}  // namespace stagger::cli
