#include "cli/option_rows.hpp"

#include "cli/rows.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace stagger::cli {
namespace {

/// Decimal, with no sign but a minus and no spaces; what is returned says why it is none.
std::optional<std::string> read_integer(const std::string& word, const Range& range,
                                        std::int64_t& value) {
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) {
    return in_quotes(word) + " is no integer";
  }
  if (error == std::errc{} && value >= range.least && value <= range.most) return std::nullopt;
  return in_quotes(word) + " is not within " + std::to_string(range.least) + " to " +
         std::to_string(range.most);
}

template <class Value>
std::optional<std::string> read_decimal(const std::string& word, Value& decimal) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc{} && stop == end && std::isfinite(value) && value >= 0) {
    decimal = value;
    return std::nullopt;
  }
  return in_quotes(word) + " is no number that is 0 or more";
}

std::optional<std::string> read_choice(const char* name, const Choice& choice,
                                       const std::string& word, Options& options) {
  const std::vector<Word> words = choice.words();
  for (std::size_t index = 0; index < words.size(); ++index) {
    if (words[index].name != word) continue;
    choice.put(options, index);
    return std::nullopt;
  }
  return unknown_name(choice.noun != nullptr ? choice.noun : name, word, names_of(words));
}

}  // namespace

const char* title(Group group) {
  constexpr const char* kTitles[] = {
      "Arguments",       "Problem", "Schedule", "Run",   "Timing model (ticks)",
      "Machine profile", "Search",  "Report",   "Output"};
  return kTitles[static_cast<std::size_t>(group)];
}

std::string OptionRow::spelled() const {
  return argument ? std::string(metavar) : "--" + std::string(name);
}

std::vector<Word> OptionRow::words() const {
  if (const auto* choice = std::get_if<Choice>(&target)) return choice->words();
  return proposed == nullptr ? std::vector<Word>{} : proposed();
}

std::span<const OptionRow> option_rows() {
  static const std::vector<OptionRow> rows = [] {
    std::vector<OptionRow> all;
    for (const auto& part :
         {argument_rows(), mask_rows(), problem_rows(), block_rows(), overlap_rows(), lint_rows(),
          range_rows(), schedule_rows(), run_rows(), dropout_rows(), timing_rows(), machine_rows(),
          search_rows(), report_rows(), output_rows()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return rows;
}

bool has_word(std::string_view list, std::string_view word) {
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(' ', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

std::vector<const OptionRow*> all_rows() {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_rows())
    rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const OptionRow* left, const OptionRow* right) {
    return left->group < right->group;
  });
  return rows;
}

std::vector<const OptionRow*> rows_of(std::string_view command) {
  std::vector<const OptionRow*> rows = all_rows();
  std::erase_if(rows, [&](const OptionRow* row) { return !has_word(row->commands, command); });
  return rows;
}

const OptionRow* find_row(std::string_view command, std::string_view name) {
  for (const OptionRow& row : option_rows()) {
    if (name == row.name && has_word(row.commands, command)) return &row;
  }
  return nullptr;
}

std::optional<std::string> assign(const OptionRow& row, const std::string& word, Options& options) {
  const bool flag = std::holds_alternative<bool Options::*>(row.target);
  if (word.empty() && !flag) return "its value is empty";
  return std::visit(
      [&](const auto& target) -> std::optional<std::string> {
        using Member = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<Member, Choice>) {
          return read_choice(row.name, target, word, options);
        } else if constexpr (std::is_same_v<Member, bool Options::*>) {
          options.*target = true;
        } else if constexpr (std::is_same_v<Member, std::string Options::*>) {
          options.*target = word;
        } else if constexpr (std::is_same_v<Member, std::vector<std::string> Options::*>) {
          (options.*target).push_back(word);
        } else if constexpr (std::is_same_v<Member, double Options::*> ||
                             std::is_same_v<Member, std::optional<double> Options::*>) {
          return read_decimal(word, options.*target);
        } else {
          std::int64_t value = 0;
          auto refusal = read_integer(word, row.range, value);
          if (!refusal) options.*target = value;
          return refusal;
        }
        return std::nullopt;
      },
      row.target);
}

}  // namespace stagger::cli
