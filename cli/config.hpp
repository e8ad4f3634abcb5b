#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace stagger::cli {

/// Reads a `stagger.config/1` file as command-line words for `command`, leaving out what the
/// command line already gave (its parsed options) and what that excludes. Keys are long option
/// names, of this command or (then left out) of another; a `command` key must name this one. Throws
/// Error{invalid_input} naming the key.
[[nodiscard]] std::vector<std::string> config_words(const std::string& path,
                                                    const CLI::App& command);

}  // namespace stagger::cli
