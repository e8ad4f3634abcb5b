#pragma once

#include "cli/option_rows.hpp"
#include "core/limits.hpp"
#include "core/timing.hpp"
#include "gpu/check/attention.hpp"

#include <array>
#include <vector>

namespace stagger::cli {

// The rows of option_rows(), a function a file or part of one.
[[nodiscard]] std::vector<OptionRow> argument_rows();
[[nodiscard]] std::vector<OptionRow> mask_rows();
[[nodiscard]] std::vector<OptionRow> problem_rows();
[[nodiscard]] std::vector<OptionRow> block_rows();
[[nodiscard]] std::vector<OptionRow> overlap_rows();
[[nodiscard]] std::vector<OptionRow> lint_rows();
[[nodiscard]] std::vector<OptionRow> range_rows();
[[nodiscard]] std::vector<OptionRow> schedule_rows();
[[nodiscard]] std::vector<OptionRow> run_rows();
[[nodiscard]] std::vector<OptionRow> dropout_rows();
[[nodiscard]] std::vector<OptionRow> timing_rows();
[[nodiscard]] std::vector<OptionRow> machine_rows();
[[nodiscard]] std::vector<OptionRow> search_rows();
[[nodiscard]] std::vector<OptionRow> report_rows();
[[nodiscard]] std::vector<OptionRow> output_rows();

// Commands that share options.
inline constexpr const char* kOnProblems =
    "show analyze compare advise verify export run optimize bench";
inline constexpr const char* kReporting =
    "list show analyze compare advise verify export run calibrate predict formulas optimize bench "
    "block overlap lint diff";
/// Whose phases can be said in ticks: on a problem that is given, or in files.
inline constexpr const char* kTimed =
    "show analyze compare advise verify export run optimize bench diff";

inline constexpr const char* kAutoSpan = "auto";
inline constexpr Range kTokens = {.least = 1, .most = kMaxTokens};
inline constexpr Range kSms = {.least = 1, .most = kMaxSms};
inline constexpr Range kHeadDims = {.least = 1, .most = gpu::kMaxHeadDim};
inline constexpr Range kTimeouts = {.least = 1, .most = 86'400'000};
inline constexpr Range kTickNs = {.least = 1, .most = 1'000'000};

// What runs and predictions are both asked for.
[[nodiscard]] Choice one_kernel();
[[nodiscard]] Choice one_dtype();
/// The schedules and the designs, each with what it is.
[[nodiscard]] std::vector<Word> schedule_words();
[[nodiscard]] std::vector<Word> design_words();
/// The machine profiles that are built in.
[[nodiscard]] std::vector<Word> machine_words();

/// A word, and the value that it stands for.
template <class Value>
struct Named {
  const char* name;
  Value value;
  const char* meaning = "";
};

template <const auto& names>
[[nodiscard]] std::vector<Word> words_of() {
  std::vector<Word> words;
  for (const auto& named : names)
    words.push_back({named.name, named.meaning});
  return words;
}

inline constexpr std::array kReleases = {
    Named<Release>{release_name(Release::immediate), Release::immediate, "at a reduction's end"},
    Named<Release>{release_name(Release::delayed), Release::delayed,
                   "into the chain's next reduction"}};

/// One of `names`, into a member.
template <const auto& names, auto member>
[[nodiscard]] Choice one_of() {
  return {.words = words_of<names>,
          .put = [](Options& options, std::size_t index) { options.*member = names[index].value; }};
}

}  // namespace stagger::cli
