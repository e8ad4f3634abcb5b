#include "cli/files.hpp"

#include "cli/captured_output.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace stagger::cli {
namespace {

/// Names of temporary files, for the signal handler; empty if there is none: of the one being
/// written here, and of one that somebody else writes.
constexpr std::size_t kLongestName = 4096;
char temporary_name[kLongestName] = "";
char marked_name[kLongestName] = "";

/// What takes the place of standard output in this thread; nullptr: nothing does.
thread_local CapturedOutput* t_captured = nullptr;

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(ErrorKind::io, path + ": " + what + ": " + std::strerror(errno));
}

void write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "cannot write");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void keep_name(char (&to)[kLongestName], const std::string& name) {
  if (name.size() >= kLongestName) {
    throw Error(ErrorKind::io, name.substr(0, 60) + "...: the name is too long");
  }
  std::memcpy(to, name.c_str(), name.size() + 1);
}

/// Closes on the way out of a function that throws.
struct Descriptor {
  int value = -1;
  explicit Descriptor(int file) : value(file) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

/// Devices and pipes cannot be replaced by a rename.
bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

void write_directly(const std::string& path, std::string_view text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.value < 0) fail(path, "cannot open");
  write_all(file.value, text, path);
}

/// The permissions of the file that is replaced, or those of a new one.
mode_t mode_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return status.st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

/// Opens a temporary file beside a path. Its name is short: the path's own may be as long as names
/// can be.
int open_temporary(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  keep_name(temporary_name, folder + ".stagger.XXXXXX");
  const int file = ::mkstemp(temporary_name);
  if (file >= 0) return file;
  temporary_name[0] = '\0';
  fail(path, "cannot create a file beside it");
}

void write_temporary(const std::string& path, std::string_view text) {
  const Descriptor file(open_temporary(path));
  write_all(file.value, text, path);
  if (::fchmod(file.value, mode_of(path)) != 0 || ::fsync(file.value) != 0) {
    fail(path, "cannot write");
  }
}

}  // namespace

CapturedOutput::CapturedOutput() : outer_(std::exchange(t_captured, this)) {}

CapturedOutput::~CapturedOutput() {
  t_captured = outer_;
}

bool CapturedOutput::keep(std::string_view text) {
  if (t_captured == nullptr) return false;
  t_captured->text_ += text;
  return true;
}

bool CapturedOutput::keep_complaint(const std::string& text) {
  if (t_captured == nullptr) return false;
  t_captured->complaints_.push_back(text);
  return true;
}

bool CapturedOutput::is_there() {
  return t_captured != nullptr;
}

std::string read_file(const std::string& path) {
  const bool standard = path == "-";
  const Descriptor file(standard ? ::dup(STDIN_FILENO)
                                 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value < 0) fail(path, "cannot open");
  std::string text;
  char block[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.value, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "cannot read");
    if (count == 0) return text;
    text.append(block, static_cast<std::size_t>(count));
    if (std::ssize(text) > kMaxFileBytes) {
      throw Error(ErrorKind::invalid_input,
                  path + ": larger than " + std::to_string(kMaxFileBytes >> 20) + " MiB");
    }
  }
}

void write_stdout(std::string_view text) {
  if (CapturedOutput::keep(text)) return;
  write_all(STDOUT_FILENO, text, "standard output");
}

std::string link_target(const std::string& path) {
  constexpr int kMostLinks = 40;
  std::string target = path;
  for (int links = 0; links < kMostLinks; ++links) {
    char to[kLongestName];
    const ssize_t length = ::readlink(target.c_str(), to, sizeof to);
    if (length < 0 || std::size(to) == static_cast<std::size_t>(length)) return target;
    const std::string next(to, static_cast<std::size_t>(length));
    const std::size_t slash = target.rfind('/');
    const bool beside = !next.starts_with('/') && slash != std::string::npos;
    target = (beside ? target.substr(0, slash + 1) : "") + next;
  }
  throw Error(ErrorKind::io, path + ": too many symbolic links");
}

void expect_writable(const std::string& path) {
  if (path == "-") return;
  const std::string target = link_target(path);
  struct stat status {};
  if (::stat(target.c_str(), &status) != 0 && errno != ENOENT) fail(path, "cannot write");
  if (S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    fail(path, "cannot write");
  }
  if (is_special(target)) {
    if (::access(target.c_str(), W_OK) != 0) fail(path, "cannot write");
    return;
  }
  ::close(open_temporary(target));
  ::unlink(temporary_name);
  temporary_name[0] = '\0';
}

void write_file(const std::string& path, std::string_view text) {
  if (path == "-") return write_stdout(text);
  const std::string target = link_target(path);
  if (is_special(target)) return write_directly(target, text);
  try {
    write_temporary(target, text);
    if (::rename(temporary_name, target.c_str()) != 0) fail(path, "cannot rename onto it");
  } catch (const Error&) {
    if (temporary_name[0] != '\0') ::unlink(temporary_name);
    temporary_name[0] = '\0';
    throw;
  }
  temporary_name[0] = '\0';
}

void mark_temporary(const std::string& path) {
  keep_name(marked_name, path);
}

void remove_temporary() noexcept {
  for (char* name : {temporary_name, marked_name}) {
    if (name[0] != '\0') ::unlink(name);
    name[0] = '\0';
  }
}

}  // namespace stagger::cli
