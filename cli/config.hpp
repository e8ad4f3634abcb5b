#pragma once

#include "cli/commands.hpp"
#include "cli/option_rows.hpp"
#include "core/json_value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace stagger::cli {

/// An option and the values that were given for it; a flag's are empty words.
struct Given {
  const OptionRow* row = nullptr;
  std::vector<std::string> words;
};

/// What a JSON value gives an option: an empty word for a flag that is true, nothing for one that
/// is not, and an array's items to one that repeats. Every word is one that it takes. Throws
/// Error{invalid_input}.
[[nodiscard]] Given given_by(const OptionRow& row, const JsonValue& value);

/// Reads a `stagger.config/1` file: what it gives of the options of `command`. Keys are long option
/// names; those that only other commands have are left out, and a `command` key must name this one.
/// Every value is one that its option takes. Throws Error{invalid_input} naming the key, Error{io}.
[[nodiscard]] std::vector<Given> config_values(const std::string& path, const Command& command);
/// Reads the text of one; `source` names it in messages.
[[nodiscard]] std::vector<Given> config_values(std::string_view text, const std::string& source,
                                               const Command& command);

}  // namespace stagger::cli
