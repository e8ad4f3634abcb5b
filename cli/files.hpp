#pragma once

#include <string>
#include <string_view>

namespace stagger::cli {

/// Reads a whole file, `-` for standard input. Throws Error{io}, Error{limit} above
/// kMaxFileBytes.
[[nodiscard]] std::string read_file(const std::string& path);

/// Writes a whole file, `-` for standard output: to a temporary name beside it, then renamed, so
/// that a full disk leaves what was there. Throws Error{io}.
void write_file(const std::string& path, std::string_view text);

/// Writes to standard output. Throws Error{io} if it cannot take it all.
void write_stdout(std::string_view text);

/// Makes remove_temporary() remove that file too, which somebody else writes. Throws Error{io} if
/// the name is too long.
void mark_temporary(const std::string& path);

/// Removes half-written temporary files; async-signal-safe.
void remove_temporary() noexcept;

}  // namespace stagger::cli
