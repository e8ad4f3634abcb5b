#include "cli/terminal.hpp"

#include "cli/captured_output.hpp"
#include "cli/files.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/ioctl.h>
#include <unistd.h>

namespace stagger::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = environment(name);
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(), [](char letter) {
      return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

int width_of(std::string_view text) {
  int columns = 0;
  bool escaped = false;
  for (const char letter : text) {
    escaped = escaped || letter == '\033';
    const bool continues = (static_cast<unsigned char>(letter) & 0xc0) == 0x80;
    if (!escaped && !continues) ++columns;
    if (letter == 'm') escaped = false;
  }
  return columns;
}

int terminal_width(int file) {
  winsize size{};
  if (::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  const std::string text = environment("COLUMNS");
  int columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  return columns >= 20 && columns <= 10'000 ? columns : 80;
}

Terminal terminal_of(const Options& options) {
  Terminal terminal;
  terminal.width =
      options.width > 0 ? static_cast<int>(options.width) : terminal_width(STDOUT_FILENO);
  terminal.unicode = !options.ascii && locale_is_utf8();
  const bool capable = ::isatty(STDOUT_FILENO) != 0 && environment("TERM") != "dumb" &&
                       environment("NO_COLOR").empty();
  terminal.color = options.color == Color::always || (options.color == Color::automatic && capable);
  return terminal;
}

void write_text(const std::string& text, const Terminal& terminal) {
  if (terminal.unicode) return write_stdout(text);
  std::string ascii;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (text[at] >= 0) {
      ascii += text[at];
    } else if (rest.starts_with("…")) {
      ascii += "...";
    } else if (rest.starts_with("§")) {
      ascii += "section ";
    } else if (rest.starts_with("µ")) {
      ascii += 'u';
    } else if ((static_cast<unsigned char>(text[at]) & 0xc0) == 0xc0) {
      ascii += '?';
    }
  }
  write_stdout(ascii);
}

void complain(const std::string& text) noexcept {
  try {
    if (CapturedOutput::keep_complaint(text)) return;
    // Words of files and of the command line are in it.
    std::string shown = "stagger: ";
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      shown += printable(std::string_view(text).substr(begin, end - begin)) + "\n";
      begin = end + 1;
    }
    const std::string line = wrapped(shown, terminal_width(STDERR_FILENO), 2);
    static_cast<void>(std::fwrite(line.data(), 1, line.size(), stderr));
    static_cast<void>(std::fflush(stderr));
  } catch (const std::bad_alloc&) {
    // There is no memory for what would be said.
  }
}

std::string wrapped(const std::string& text, int width, int indent) {
  std::string result;
  int column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    // A word with the spaces, or the line's end, before it.
    std::size_t word = text.find_first_not_of(" \n", begin);
    if (word == std::string::npos) word = text.size();
    const std::size_t end = std::min(text.find_first_of(" \n", word), text.size());
    std::string space = text.substr(begin, word - begin);
    if (space.find('\n') != std::string::npos) column = 0;
    const std::string_view letters = std::string_view(text).substr(word, end - word);
    const int needed = width_of(space) + width_of(letters);
    if (column > indent && column + needed > width) {
      space = "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      column = 0;
    }
    (result += space) += letters;
    const std::size_t line = space.rfind('\n');
    column +=
        width_of(line == std::string::npos ? space : space.substr(line + 1)) + width_of(letters);
    begin = end;
  }
  return result;
}

std::string labelled(const std::string& label, const std::string& text, int width) {
  constexpr int kLabelColumns = 14;
  const int spaces = std::max(1, kLabelColumns - width_of(label));
  const auto nested = static_cast<int>(std::min(text.find_first_not_of(' '), text.size()));
  return wrapped(label + std::string(static_cast<std::size_t>(spaces), ' ') + text, width,
                 kLabelColumns + nested) +
         "\n";
}

}  // namespace stagger::cli
