#include "cli/interrupt.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"

#include <csignal>
#include <unistd.h>
#include <utility>

namespace stagger::cli {
namespace {

volatile std::sig_atomic_t g_finishes = 0;
volatile std::sig_atomic_t g_interrupted = 0;
thread_local std::shared_ptr<const std::atomic<bool>> t_cancelled;

/// Whoever waits is told that something happens. Async-signal-safe.
void acknowledge() {
  constexpr char kText[] = "\nstagger: ending with what there is; interrupt again to end at once\n";
  if (::write(STDERR_FILENO, kText, sizeof kText - 1) < 0) return;
}

extern "C" void on_interrupt(int) {
  if (g_finishes != 0 && g_interrupted == 0) {
    g_interrupted = 1;
    acknowledge();
    return;
  }
  remove_temporary();
  ::_exit(kInterrupted);
}

}  // namespace

void finish_on_interrupt() {
  g_finishes = 1;
}

void handle_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

bool interrupted() noexcept {
  return g_interrupted != 0 || (t_cancelled && *t_cancelled);
}

std::function<bool()> interruption() {
  return [cancelled = t_cancelled] { return g_interrupted != 0 || (cancelled && *cancelled); };
}

Cancellable::Cancellable(std::shared_ptr<const std::atomic<bool>> cancelled)
    : outer_(std::exchange(t_cancelled, std::move(cancelled))) {}

Cancellable::~Cancellable() {
  t_cancelled = std::move(outer_);
}

}  // namespace stagger::cli
