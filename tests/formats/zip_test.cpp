#include "core/formats/zip.hpp"

#include "core/error.hpp"
#include "core/formats/cursor.hpp"
#include "core/limits.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <zlib.h>

namespace stagger::formats {
namespace {

std::string deflated(const std::string& text) {
  std::string bytes(text.size() + 1000, '\0');
  z_stream stream = {};
  REQUIRE(::deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string input = text;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  bytes.resize(stream.total_out);
  ::deflateEnd(&stream);
  return bytes;
}

/// What is said of one entry, true or not.
struct Claim {
  std::string packed;
  std::uint64_t method = 8;
  std::uint64_t checksum = 0;
  std::uint64_t bytes = 0;
  std::uint64_t flags = 0;
  bool zip64 = false;  ///< all of the next three
  bool wide_bytes = false;
  bool wide_packed = false;
  bool wide_begin = false;
  std::string before = {};  ///< extra fields before those of 64 bits
  std::string behind = {};
  std::string name = "a.npy";
};

Claim claim_of(const std::string& text) {
  return {.packed = deflated(text),
          .checksum = ::crc32(0, reinterpret_cast<const Bytef*>(text.data()),
                              static_cast<uInt>(text.size())),
          .bytes = text.size()};
}

/// What an archive's end says, true or not.
struct End {
  bool zip64 = false;        ///< numbers of 64 bits, in a record that a locator finds
  bool few_entries = false;  ///< their number is in 16 bits nevertheless
  bool near = false;         ///< and the directory's place in 32
  std::uint64_t record = 0x06064b50;
  std::uint64_t locator = 0x07064b50;
  std::uint64_t disk = 0;
  std::string comment = {};
};

/// An archive of entries that say so, by the byte.
std::string archive(const std::vector<Claim>& claims, const End& end = {}) {
  std::string bytes;
  std::string directory;
  for (const Claim& claim : claims) {
    const std::uint64_t ones = 0xFFFFFFFF;
    const bool wide_bytes = claim.zip64 || claim.wide_bytes;
    const bool wide_packed = claim.zip64 || claim.wide_packed;
    const bool wide_begin = claim.zip64 || claim.wide_begin;
    std::string wide;
    if (wide_bytes) put_number(wide, claim.bytes, 8);
    if (wide_packed) put_number(wide, claim.packed.size(), 8);
    if (wide_begin) put_number(wide, bytes.size(), 8);
    std::string extra = claim.before;
    if (!wide.empty()) {
      put_number(extra, 1, 2);
      put_number(extra, wide.size(), 2);
      extra += wide;
    }
    extra += claim.behind;
    const auto fields = [&](std::string& to) {
      put_number(to, 20, 2);
      put_number(to, claim.flags, 2);
      put_number(to, claim.method, 2);
      put_number(to, 0, 4);
      put_number(to, claim.checksum, 4);
      put_number(to, wide_packed ? ones : claim.packed.size(), 4);
      put_number(to, wide_bytes ? ones : claim.bytes, 4);
      put_number(to, claim.name.size(), 2);
    };
    put_number(directory, 0x02014b50, 4);
    put_number(directory, 20, 2);
    fields(directory);
    put_number(directory, extra.size(), 2);
    put_number(directory, 0, 2);
    put_number(directory, 0, 8);
    put_number(directory, wide_begin ? ones : bytes.size(), 4);
    directory += claim.name + extra;
    put_number(bytes, 0x04034b50, 4);
    fields(bytes);
    put_number(bytes, 0, 2);
    bytes += claim.name + claim.packed;
  }
  const std::size_t begin = bytes.size();
  bytes += directory;
  if (end.zip64) {
    const std::size_t record = bytes.size();
    put_number(bytes, end.record, 4);
    put_number(bytes, 44, 8);  // bytes that follow
    put_number(bytes, 45, 2);
    put_number(bytes, 45, 2);
    put_number(bytes, 0, 8);  // disks
    for (const std::uint64_t value : {claims.size(), claims.size(), directory.size(), begin})
      put_number(bytes, value, 8);
    put_number(bytes, end.locator, 4);
    put_number(bytes, 0, 4);
    put_number(bytes, record, 8);
    put_number(bytes, 1, 4);
  }
  put_number(bytes, 0x06054b50, 4);
  put_number(bytes, end.disk, 2);
  put_number(bytes, end.disk, 2);
  const bool many = end.zip64 && !end.few_entries;
  put_number(bytes, many ? 0xFFFF : claims.size(), 2);
  put_number(bytes, many ? 0xFFFF : claims.size(), 2);
  put_number(bytes, end.zip64 ? 0xFFFFFFFF : directory.size(), 4);
  put_number(bytes, end.zip64 && !end.near ? 0xFFFFFFFF : begin, 4);
  put_number(bytes, end.comment.size(), 2);
  return bytes + end.comment;
}

std::string refusal(const std::string& bytes) {
  try {
    static_cast<void>(read_zip(bytes, "x.npz"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what is written as a zip is read again, the same bytes every time") {
  test::Random random(7);
  std::vector<ZipEntry> entries;
  for (int entry = 0; entry < 5; ++entry) {
    std::string bytes;
    for (std::int64_t size = random.between(0, 300); size > 0; --size)
      bytes += static_cast<char>(random.between(-128, 127));
    entries.push_back({"entry" + std::to_string(entry), bytes});
  }
  const std::string bytes = write_zip(entries);
  CHECK(bytes == write_zip(entries));
  const std::vector<ZipEntry> read = read_zip(bytes, "x");
  REQUIRE(read.size() == entries.size());
  for (std::size_t entry = 0; entry < entries.size(); ++entry) {
    CHECK(read[entry].name == entries[entry].name);
    CHECK(read[entry].bytes == entries[entry].bytes);
  }
  CHECK(read_zip(write_zip({}), "x").empty());
}

TEST_CASE("deflated entries are unpacked, and sizes of 64 bits are heeded") {
  const std::string text(100'000, 'x');
  Claim claim = claim_of(text);
  CHECK(read_zip(archive({claim}), "x").front().bytes == text);
  claim.zip64 = true;
  CHECK(read_zip(archive({claim}), "x").front().bytes == text);
}

TEST_CASE("an end of 64 bits is found by its locator, and behind any comment") {
  Claim second = claim_of("second");
  second.name = "b";
  const std::vector<Claim> claims = {claim_of("first entry first entry"), second};
  for (const std::string& comment :
       {std::string(), std::string("x"), std::string("PK\x05\x06"), std::string(0xFFFF, 'c')}) {
    for (const bool zip64 : {false, true}) {
      CAPTURE(comment.size(), zip64);
      const std::vector<ZipEntry> read =
          read_zip(archive(claims, {.zip64 = zip64, .comment = comment}), "x");
      REQUIRE(read.size() == 2);
      CHECK(read[0].bytes == "first entry first entry");
      CHECK(read[1].name == "b");
      CHECK(read[1].bytes == "second");
    }
  }
  CHECK(read_zip(archive({}, {.zip64 = true}), "x").empty());
  // Disks of 64 bits are in the record.
  CHECK(refusal(archive(claims, {.zip64 = true, .disk = 0xFFFF})).empty());
  CHECK(refusal(archive(claims, {.disk = 1})) == "x.npz: a zip of several disks");
  CHECK(refusal(archive(claims, {.zip64 = true, .record = 1})) ==
        "x.npz: no ZIP64 end record where one should be");
  CHECK(refusal(archive(claims, {.zip64 = true, .locator = 1})) ==
        "x.npz: 65535 entries; at most 4096");
  CHECK(refusal(archive({}, {.comment = std::string(0x10000, 'c')})).find("cut short") !=
        std::string::npos);
}

TEST_CASE(
    "of an entry's numbers those of 64 bits are read that are all ones, behind other fields") {
  Claim first = claim_of("the first one");
  first.name = "first";
  Claim third = first;
  third.name = "third";
  std::string other;
  put_number(other, 0x5455, 2);
  put_number(other, 5, 2);
  other += "12345";
  for (unsigned wide = 0; wide < 8; ++wide) {
    for (const std::string& before : {std::string(), other, other + other}) {
      for (const std::string& behind : {std::string(), other, std::string(3, '\x01')}) {
        Claim claim = claim_of("the second entry, the second entry");
        claim.wide_bytes = (wide & 1U) != 0;
        claim.wide_packed = (wide & 2U) != 0;
        claim.wide_begin = (wide & 4U) != 0;
        claim.before = before;
        claim.behind = behind;
        CAPTURE(wide, before.size(), behind.size());
        const std::vector<ZipEntry> read = read_zip(archive({first, claim, third}), "x");
        CHECK(read.at(2).bytes == "the first one");
        CHECK(read.at(1).bytes == "the second entry, the second entry");
      }
    }
  }
}

TEST_CASE("an end's record of 64 bits is looked for where a number is all ones, and only there") {
  const std::vector<Claim> claims = {claim_of("text")};
  for (const bool few : {false, true}) {
    for (const bool near : {false, true}) {
      CAPTURE(few, near);
      CHECK(refusal(archive(claims, {.zip64 = true, .few_entries = few, .near = near})).empty());
      const std::string broken =
          refusal(archive(claims, {.zip64 = true, .few_entries = few, .near = near, .record = 1}));
      CHECK(broken.empty() == (few && near));
    }
  }
  // Of two disks only what its record of 64 bits says counts.
  CHECK(refusal(archive(claims, {.zip64 = true, .few_entries = true, .near = true, .disk = 1}))
            .empty());
  CHECK(refusal(archive(claims, {.disk = 0xFFFF})) == "x.npz: a zip of several disks");
}

TEST_CASE("folders have no bytes, and what follows them is read") {
  Claim folder{.packed = "", .method = 0, .name = "arrays/"};
  Claim file = claim_of("in a folder");
  file.name = "arrays/a.npy";
  const std::vector<ZipEntry> read = read_zip(archive({folder, file}), "x");
  REQUIRE(read.size() == 1);
  CHECK(read.front().name == "arrays/a.npy");
  CHECK(read.front().bytes == "in a folder");
}

TEST_CASE("sizes that are said are believed up to what deflate can do, and up to 256 MiB") {
  // Zeros are no deflated text: what passes the sizes does not unpack.
  const auto said = [](std::size_t packed, std::uint64_t bytes, int entries = 1) {
    std::vector<Claim> claims;
    for (int entry = 0; entry < entries; ++entry) {
      claims.push_back(
          {.packed = std::string(packed, '\0'), .bytes = bytes, .name = std::to_string(entry)});
    }
    const std::string why = refusal(archive(claims));
    if (why.find("does not unpack") != std::string::npos) return "believed";
    if (why.find("bytes are no") != std::string::npos) return "too many";
    return why.find("larger than 256 MiB") != std::string::npos ? "too large" : "";
  };
  CHECK(said(10, 11 * 1032 - 1) == std::string("believed"));
  CHECK(said(10, 11 * 1032) == std::string("too many"));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28;
  CHECK(said(300'000, kMost) == std::string("believed"));
  CHECK(said(300'000, kMost + 1) == std::string("too large"));
  CHECK(said(150'000, kMost / 2, 2) == std::string("believed"));
  CHECK(said(150'000, kMost / 2 + 1, 2) == std::string("too large"));
}

TEST_CASE("an archive has as many entries as it may, and not one more") {
  const auto claims = [](int count) {
    std::vector<Claim> all;
    for (int entry = 0; entry < count; ++entry)
      all.push_back({.packed = "", .method = 0, .name = std::to_string(entry)});
    return all;
  };
  CHECK(read_zip(archive(claims(4096)), "x").size() == 4096);
  CHECK(refusal(archive(claims(4097))) == "x.npz: 4097 entries; at most 4096");
}

TEST_CASE("an archive that lies is refused in words") {
  const Claim honest = claim_of("some text that is packed, some text that is packed");
  Claim claim = honest;
  claim.checksum ^= 1;
  CHECK(refusal(archive({claim})) == "x.npz: a.npy: its checksum is another");
  claim = honest;
  claim.bytes += 1;
  CHECK(refusal(archive({claim})) == "x.npz: a.npy: does not unpack to 51 bytes");
  claim.bytes = 10;
  CHECK(refusal(archive({claim})) == "x.npz: a.npy: does not unpack to 10 bytes");
  claim = honest;
  claim.method = 0;
  CHECK(refusal(archive({claim})).find("bytes are no 50") != std::string::npos);
  claim.method = 12;
  CHECK(refusal(archive({claim})).find("method 12") != std::string::npos);
  claim = honest;
  claim.flags = 1;
  CHECK(refusal(archive({claim})) == "x.npz: a.npy is encrypted");
  CHECK(refusal(archive({honest, honest})) == "x.npz: a.npy is there twice");
  claim = honest;
  claim.packed.resize(claim.packed.size() / 2);
  CHECK(refusal(archive({claim})) == "x.npz: a.npy: does not unpack to 50 bytes");
  CHECK(refusal("PK\x03\x04") ==
        "x.npz: no zip archive, or cut short: it has no central directory");
}

TEST_CASE("bombs are refused before they are unpacked") {
  Claim claim = claim_of(std::string(1 << 20, '\0'));
  claim.bytes = std::uint64_t{1} << 40;
  claim.zip64 = true;
  CHECK(refusal(archive({claim})).find("bytes are no 1099511627776") != std::string::npos);
  // Entries that share their bytes would be more than the file.
  std::vector<Claim> claims;
  const Claim four = claim_of(std::string(4 << 20, '\0'));  // MiB
  for (int entry = 0; entry < 70; ++entry) {
    claims.push_back(four);
    claims.back().name = std::to_string(entry);
  }
  CHECK(refusal(archive(claims)) == "x.npz: unpacked it is larger than 256 MiB");
}

TEST_CASE("an archive cut short anywhere is refused, and so is one with a byte changed, or read") {
  const std::string whole = archive({claim_of("first entry first entry"), [] {
                                       Claim claim = claim_of("second");
                                       claim.name = "b";
                                       claim.zip64 = true;
                                       return claim;
                                     }()});
  REQUIRE(refusal(whole).empty());
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(refusal(whole.substr(0, size)).empty());
  int read = 0;
  for (std::size_t place = 0; place < whole.size(); ++place) {
    for (const char other : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string bytes = whole;
      bytes[place] = other;
      read += refusal(bytes).empty() ? 1 : 0;
    }
  }
  CHECK(read > 0);  // dates and versions mean nothing
}

}  // namespace
}  // namespace stagger::formats
