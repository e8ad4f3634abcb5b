#include "cli/heed.hpp"

#include "core/error.hpp"

namespace stagger::cli {

std::string given_of(const Options& options, std::string_view names) {
  for (const std::string& name : options.given) {
    if (has_word(names, name)) return "--" + name;
  }
  return "";
}

std::string given_in(const Options& options, Group group) {
  for (const std::string& name : options.given) {
    const OptionRow* row = find_row("analyze", name);
    if (row != nullptr && row->group == group) return row->spelled();
  }
  return "";
}

void reject(const std::string& option, const std::string& why) {
  if (!option.empty()) throw Error(ErrorKind::usage, option + " " + why);
}

void check_display(const Options& options) {
  const bool chart = options.format == "txt" || options.output.ends_with(".txt");
  if (chart || !(options.json || options.csv || options.markdown)) return;
  reject(given_of(options, "color ascii width"),
         std::string("means nothing beside ") + (options.json  ? "--json"
                                                 : options.csv ? "--csv"
                                                               : "--markdown"));
}

void check_standard_output(const Options& options) {
  if (options.output != "-") return;
  reject(given_of(options, "json"), "would go to standard output, where -o - writes the file");
}

}  // namespace stagger::cli
