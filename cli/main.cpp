#include "cli/commands.hpp"
#include "cli/error_code.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/help.hpp"
#include "cli/interrupt.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"

#include <exception>
#include <fcntl.h>
#include <malloc.h>
#include <new>
#include <string>
#include <unistd.h>
#include <vector>

namespace stagger::cli {
namespace {

/// A file that is opened must not take the place of a standard one that is closed: what is meant
/// for it would go there. Writing to the stand-in fails, as it should.
void keep_standard_files() {
  while (true) {
    const int file = ::open("/dev/null", O_RDONLY);
    if (file < 0) return;
    if (file > STDERR_FILENO) {
      ::close(file);
      return;
    }
  }
}

int run(const std::vector<std::string>& words) {
  if (words.empty()) {
    const Terminal terminal = terminal_of({});
    write_text(overview_text(terminal.width), terminal);
    return kHolds;
  }
  const CommandLine line = parse(words);
  if (!line.options.help) {
    check_display(line.options);
    // Before work that would be lost.
    for (const std::string* path : {&line.options.output, &line.options.proof}) {
      if (!path->empty()) expect_writable(*path);
    }
    return line.command->run(line.options);
  }
  const Terminal terminal = terminal_of({});
  write_text(help_text(*line.command, terminal.width), terminal);
  return kHolds;
}

}  // namespace
}  // namespace stagger::cli

int main(int argc, char** argv) {
  using namespace stagger::cli;
  keep_standard_files();
  // Large arrays come and go in every step: keep their pages instead of faulting them in again.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  handle_interrupts();
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const stagger::Error& error) {
    complain(error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return kInternal;
  } catch (const std::exception& error) {
    complain(std::string("internal error: ") + error.what());
    return kInternal;
  }
}
