#pragma once

#include "cli/option_rows.hpp"

#include <string>
#include <string_view>

namespace stagger::cli {

// An option that a command takes may still mean nothing beside others. Rows say so where names
// alone tell (`needs`, `excludes`); a command asks these where values do, before it works.

/// The first option on the command line, as it is spelled, that a list of names joined by spaces
/// has; empty if none. A config may say more than a command heeds: one serves several.
[[nodiscard]] std::string given_of(const Options& options, std::string_view names);

/// The first option on the command line that `analyze` has in a group; empty if none.
[[nodiscard]] std::string given_in(const Options& options, Group group);

/// Throws Error{usage}, "OPTION WHY", unless `option` is empty.
void reject(const std::string& option, const std::string& why);

/// Colours, Unicode and the width are for people: throws Error{usage} if one is given on the
/// command line where only programs read what is printed and no chart in text is written.
void check_display(const Options& options);

/// What `--json` says goes where the file does: throws Error{usage} if both are given.
void check_standard_output(const Options& options);

}  // namespace stagger::cli
