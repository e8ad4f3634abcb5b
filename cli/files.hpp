#pragma once

#include <string>
#include <string_view>

namespace stagger::cli {

/// Reads a whole file, `-` for standard input. Throws Error{io}, Error{limit} above
/// kMaxFileBytes.
[[nodiscard]] std::string read_file(const std::string& path);

/// The path that symbolic links lead to, whether there is a file or not; the path itself if it is
/// no link. Throws Error{io} if they lead nowhere.
[[nodiscard]] std::string link_target(const std::string& path);

/// Throws Error{io} if write_file() could not write there, as far as can be known before: for
/// commands that work for long before they write.
void expect_writable(const std::string& path);

/// Writes a whole file, `-` for standard output: to a temporary name beside it, then renamed, so
/// that a full disk leaves what was there. A link stays one, and a file keeps its permissions.
/// Throws Error{io}.
void write_file(const std::string& path, std::string_view text);

/// Writes to standard output. Throws Error{io} if it cannot take it all.
void write_stdout(std::string_view text);

/// Makes remove_temporary() remove that file too, which somebody else writes. Throws Error{io} if
/// the name is too long.
void mark_temporary(const std::string& path);

/// Removes half-written temporary files; async-signal-safe.
void remove_temporary() noexcept;

}  // namespace stagger::cli
