#pragma once

#include "core/time_unit.hpp"
#include "workbench/time_model.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace stagger::cli {

/// `12.5 %`, of a part and a positive whole.
[[nodiscard]] std::string percent(Ticks part, Ticks whole);

/// `1,073,741,824`.
[[nodiscard]] std::string grouped(std::int64_t number);
/// Words as a cell of a Markdown table.
[[nodiscard]] std::string markdown_cell(const std::string& words);
/// `1,234.568`, of milliseconds.
[[nodiscard]] std::string milliseconds(double ms);

/// How many columns of these widths, from the first, have room beside each other with a space
/// between two; `least` at least, as far as there are so many.
[[nodiscard]] std::size_t columns_that_fit(std::span<const std::size_t> widths, int room,
                                           std::size_t least);

/// A cell of comma-separated values: in quotes where a comma, a quote or a line's end needs them.
[[nodiscard]] std::string in_csv(const std::string& words);

/// What a run takes so many partial tiles to be, of which the mask does not say the pairs.
[[nodiscard]] std::string assumed_words(std::int64_t tiles);

/// One line: `chain, compute 5, reduce 1 ticks, 50 SMs resident`.
[[nodiscard]] std::string model_line(const workbench::TimeModel& model);
/// One line: `h200 (NVIDIA H200): replay`; of a model in ns.
[[nodiscard]] std::string machine_line(const workbench::TimeModel& model);
/// `start 3.50, passes 120.00`: what a whole run takes beside its makespan; of a model in ns.
[[nodiscard]] std::string around_words(const workbench::TimeModel& model, const TimeUnit& unit);

}  // namespace stagger::cli
