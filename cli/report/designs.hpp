#pragma once

#include "cli/terminal.hpp"
#include "core/json.hpp"
#include "workbench/designs/advice.hpp"
#include "workbench/designs/comparison.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// Schema `stagger.compare/1` with a row for each design.
[[nodiscard]] std::string designs_json(const designs::Comparison& comparison);

/// A line of names, and one for each design.
[[nodiscard]] std::string designs_csv(const designs::Comparison& comparison);

/// The table, as wide as the terminal at most, and a legend.
[[nodiscard]] std::string designs_text(const designs::Comparison& comparison,
                                       const Terminal& terminal);

/// The table of designs in Markdown.
[[nodiscard]] std::string designs_markdown(const designs::Comparison& comparison);

/// What a design does of one problem: for programs and for people.
[[nodiscard]] Json design_json(const designs::Analysis& analysis);
[[nodiscard]] std::string design_text(const designs::Analysis& analysis, const Problem& problem,
                                      const Terminal& terminal);

/// Schema `stagger.advice/1`, and in words.
[[nodiscard]] std::string advice_json(const designs::Advice& advice);
[[nodiscard]] std::string advice_text(const designs::Advice& advice, const Terminal& terminal);

/// `ordered shift`, `split`: a row's design and schedule.
[[nodiscard]] std::string name_of(const designs::ComparisonRow& row);

/// Why a row has no times.
[[nodiscard]] std::string reason_of(const designs::ComparisonRow& row);

/// What bits move with, in words.
[[nodiscard]] std::string bits_words(const std::vector<const char*>& words);

/// `384 MiB`, `1.5 GiB`.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

}  // namespace stagger::cli
