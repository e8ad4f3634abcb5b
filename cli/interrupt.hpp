#pragma once

namespace stagger::cli {

/// From now on the first interrupt (SIGINT, SIGTERM) only makes interrupted() true, so that work
/// can end with what it has; a second one ends the program with exit code 130, as the first does
/// before.
void finish_on_interrupt();

/// Installs the handlers; called once.
void handle_interrupts();

[[nodiscard]] bool interrupted() noexcept;

}  // namespace stagger::cli
