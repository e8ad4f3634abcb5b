// Zip archives, as numpy writes them: read by the central directory at their end, because some
// writers leave the sizes out of the headers before the data. numpy forces ZIP64 fields, which mean
// something only where the field of 32 bits is all ones.

#include "core/formats/zip.hpp"

#include "core/error.hpp"
#include "core/formats/cursor.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <zlib.h>

namespace stagger::formats {
namespace {

constexpr std::uint64_t kLocal = 0x04034b50;
constexpr std::uint64_t kCentral = 0x02014b50;
constexpr std::uint64_t kEnd = 0x06054b50;
constexpr std::uint64_t kEnd64 = 0x06064b50;
constexpr std::uint64_t kEnd64Locator = 0x07064b50;
constexpr std::uint64_t kAllOnes16 = 0xFFFF;
constexpr std::uint64_t kAllOnes32 = 0xFFFFFFFF;
constexpr std::uint64_t kMostEntries = 4096;
constexpr std::uint64_t kMostBytes = kMaxFileBytes;
/// Deflate writes at least a byte for so many.
constexpr std::uint64_t kMostInflation = 1032;

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t begin = 0;
};

/// What the central directory says of an entry.
struct Header {
  std::string name;
  std::uint64_t method = 0;
  std::uint64_t checksum = 0;
  std::uint64_t packed = 0;
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;  ///< of its local header
};

class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& source)
      : bytes_(bytes), source_(source), cursor_(bytes, source) {}

  std::vector<ZipEntry> run() {
    const Directory directory = find_directory();
    if (directory.entries > kMostEntries) {
      throw Error(ErrorKind::invalid_input, source_ + ": " + std::to_string(directory.entries) +
                                                " entries; at most " +
                                                std::to_string(kMostEntries));
    }
    cursor_.go_to(directory.begin);
    std::vector<Header> headers;
    for (std::uint64_t entry = 0; entry < directory.entries; ++entry)
      headers.push_back(header());
    check(headers);
    std::vector<ZipEntry> entries;
    for (const Header& each : headers) {
      if (each.name.ends_with('/')) continue;  // a folder
      entries.push_back({each.name, content(each)});
    }
    return entries;
  }

 private:
  /// The end record is the last whose comment ends where the file does.
  Directory find_directory() {
    constexpr std::size_t kSize = 22;
    constexpr std::size_t kLongestComment = 0xFFFF;
    for (std::size_t comment = 0; comment <= kLongestComment; ++comment) {
      if (bytes_.size() < kSize + comment) break;
      cursor_.go_to(bytes_.size() - kSize - comment);
      const std::size_t place = cursor_.place();
      if (cursor_.number(4) != kEnd) continue;
      cursor_.go_to(place + 20);
      if (cursor_.number(2) == comment) return directory_at(place);
    }
    cursor_.reject("no zip archive, or cut short: it has no central directory");
  }

  Directory directory_at(std::size_t end) {
    cursor_.go_to(end + 4);
    if (cursor_.number(4) != 0 && !has_locator(end)) cursor_.reject("a zip of several disks");
    cursor_.go_to(end + 10);
    Directory directory;
    directory.entries = cursor_.number(2);
    static_cast<void>(cursor_.number(4));
    directory.begin = cursor_.number(4);
    const bool wide = directory.entries == kAllOnes16 || directory.begin == kAllOnes32;
    if (!wide || !has_locator(end)) return directory;
    cursor_.go_to(end - 20 + 8);
    cursor_.go_to(cursor_.number(8));
    if (cursor_.number(4) != kEnd64) cursor_.reject("no ZIP64 end record where one should be");
    cursor_.go_to(cursor_.place() + 28);
    directory.entries = cursor_.number(8);
    static_cast<void>(cursor_.number(8));
    directory.begin = cursor_.number(8);
    return directory;
  }

  bool has_locator(std::size_t end) {
    if (end < 20) return false;
    cursor_.go_to(end - 20);
    return cursor_.number(4) == kEnd64Locator;
  }

  Header header() {
    if (cursor_.number(4) != kCentral) cursor_.reject("a broken central directory");
    static_cast<void>(cursor_.take(4));
    const std::uint64_t flags = cursor_.number(2);
    Header header;
    header.method = cursor_.number(2);
    static_cast<void>(cursor_.take(4));
    header.checksum = cursor_.number(4);
    header.packed = cursor_.number(4);
    header.bytes = cursor_.number(4);
    const std::uint64_t name = cursor_.number(2);
    const std::uint64_t extra = cursor_.number(2);
    const std::uint64_t comment = cursor_.number(2);
    static_cast<void>(cursor_.take(8));
    header.begin = cursor_.number(4);
    header.name = cursor_.take(name);
    widen(header, cursor_.take(extra));
    static_cast<void>(cursor_.take(comment));
    if ((flags & 1) != 0) cursor_.reject(header.name + " is encrypted");
    if (header.method != 0 && header.method != 8) {
      cursor_.reject(header.name + " is packed by method " + std::to_string(header.method) +
                     "; known: 0 (stored), 8 (deflated)");
    }
    return header;
  }

  /// Takes the numbers of 64 bits in the place of those of 32 that are all ones.
  void widen(Header& header, std::string_view extra) {
    Cursor fields(extra, source_ + ": " + header.name);
    while (fields.left() >= 4) {
      const std::uint64_t id = fields.number(2);
      Cursor field(fields.take(fields.number(2)), source_ + ": " + header.name);
      if (id != 1) continue;
      for (std::uint64_t* number : {&header.bytes, &header.packed, &header.begin}) {
        if (*number == kAllOnes32) *number = field.number(8);
      }
      return;
    }
  }

  /// Refuses what would take more memory than it may, before any is taken.
  void check(const std::vector<Header>& headers) {
    std::uint64_t packed = 0;
    std::uint64_t bytes = 0;
    std::set<std::string> names;
    for (const Header& each : headers) {
      if (!names.insert(each.name).second) cursor_.reject(each.name + " is there twice");
      if (each.packed > bytes_.size() || (packed += each.packed) > bytes_.size()) {
        cursor_.reject(each.name + ": the entries are longer than the file");
      }
      const bool stored = each.method == 0;
      if (stored ? each.bytes != each.packed : each.bytes / kMostInflation > each.packed) {
        cursor_.reject(each.name + ": " + std::to_string(each.packed) + " bytes are no " +
                       std::to_string(each.bytes));
      }
      if (each.bytes > kMostBytes || (bytes += each.bytes) > kMostBytes) {
        throw Error(ErrorKind::invalid_input, source_ + ": unpacked it is larger than " +
                                                  std::to_string(kMostBytes >> 20) + " MiB");
      }
    }
  }

  std::string content(const Header& header) {
    cursor_.go_to(header.begin);
    if (cursor_.number(4) != kLocal) cursor_.reject(header.name + ": no entry where one should be");
    static_cast<void>(cursor_.take(22));
    const std::uint64_t name = cursor_.number(2);
    const std::uint64_t extra = cursor_.number(2);
    static_cast<void>(cursor_.take(name + extra));
    const std::string_view packed = cursor_.take(header.packed);
    std::string bytes = header.method == 0 ? std::string(packed) : inflated(header, packed);
    const auto checksum =
        ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    if (checksum != header.checksum) cursor_.reject(header.name + ": its checksum is another");
    return bytes;
  }

  [[nodiscard]] std::string inflated(const Header& header, std::string_view packed) const {
    struct Stream : z_stream {
      Stream() : z_stream{} {}
      Stream(const Stream&) = delete;
      Stream& operator=(const Stream&) = delete;
      ~Stream() { ::inflateEnd(this); }
    } stream;
    if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
      throw Error(ErrorKind::limit, "no memory to unpack " + header.name);
    }
    std::string input(packed);
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    std::string bytes;
    char block[1 << 16];
    int status = Z_OK;
    while (status == Z_OK) {
      stream.next_out = reinterpret_cast<Bytef*>(block);
      stream.avail_out = sizeof block;
      status = ::inflate(&stream, Z_NO_FLUSH);
      bytes.append(block, sizeof block - stream.avail_out);
      if (bytes.size() > header.bytes) break;
      if (status == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) break;
    }
    if (status != Z_STREAM_END || bytes.size() != header.bytes) {
      cursor_.reject(header.name + ": does not unpack to " + std::to_string(header.bytes) +
                     " bytes");
    }
    return bytes;
  }

  std::string_view bytes_;
  const std::string& source_;
  Cursor cursor_;
};

/// The fields that the two headers of an entry share.
void put_header(const ZipEntry& entry, std::string& bytes) {
  constexpr std::uint64_t kVersion = 20;
  constexpr std::uint64_t kFirstDay = 0x0021;  // 1 January 1980, 0:00
  put_number(bytes, kVersion, 2);
  put_number(bytes, 0, 2);
  put_number(bytes, 0, 2);
  put_number(bytes, 0, 2);
  put_number(bytes, kFirstDay, 2);
  put_number(bytes,
             ::crc32(0, reinterpret_cast<const Bytef*>(entry.bytes.data()),
                     static_cast<uInt>(entry.bytes.size())),
             4);
  put_number(bytes, entry.bytes.size(), 4);
  put_number(bytes, entry.bytes.size(), 4);
  put_number(bytes, entry.name.size(), 2);
  put_number(bytes, 0, 2);
}

}  // namespace

std::vector<ZipEntry> read_zip(std::string_view bytes, const std::string& source) {
  return ZipReader(bytes, source).run();
}

std::string write_zip(const std::vector<ZipEntry>& entries) {
  std::string bytes;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    if (bytes.size() + entry.bytes.size() > kAllOnes32 / 2) {
      throw Error(ErrorKind::limit, "an archive of more than 2 GiB is not written");
    }
    put_number(directory, kCentral, 4);
    put_number(directory, 20, 2);
    put_header(entry, directory);
    put_number(directory, 0, 2);  // comment
    put_number(directory, 0, 2);  // disk
    put_number(directory, 0, 2);
    put_number(directory, 0, 4);
    put_number(directory, bytes.size(), 4);
    directory += entry.name;
    put_number(bytes, kLocal, 4);
    put_header(entry, bytes);
    bytes += entry.name;
    bytes += entry.bytes;
  }
  const std::size_t begin = bytes.size();
  bytes += directory;
  put_number(bytes, kEnd, 4);
  put_number(bytes, 0, 4);
  put_number(bytes, entries.size(), 2);
  put_number(bytes, entries.size(), 2);
  put_number(bytes, directory.size(), 4);
  put_number(bytes, begin, 4);
  put_number(bytes, 0, 2);
  return bytes;
}

}  // namespace stagger::formats
