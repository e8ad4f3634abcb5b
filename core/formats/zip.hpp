#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagger::formats {

/// A file in a zip archive.
struct ZipEntry {
  std::string name;
  std::string bytes;
};

/// Reads an archive by its central directory, ZIP64 too; entries are stored or deflated, and their
/// checksums are held against their bytes. Throws Error{invalid_input} on anything else,
/// Error{limit} if it has more than 4096 entries or would unpack to more than kMaxFileBytes: memory
/// is bounded by the file and that.
[[nodiscard]] std::vector<ZipEntry> read_zip(std::string_view bytes, const std::string& source);

/// Writes entries as they are (stored), with a fixed date: the same entries, the same bytes. Throws
/// Error{limit} above 4 GiB.
[[nodiscard]] std::string write_zip(const std::vector<ZipEntry>& entries);

}  // namespace stagger::formats
