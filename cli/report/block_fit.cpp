#include "cli/report/block_fit.hpp"

#include "cli/report/words.hpp"
#include "core/files.hpp"
#include "core/median.hpp"
#include "core/printable.hpp"
#include "core/text.hpp"
#include "core/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace stagger::cli {
namespace {

using block::FittedBlock;
using block::MeasuredBlock;
using PredictedTime = std::optional<double> FittedBlock::*;

/// `+0.7 %`, `-` where nothing is predicted.
std::string error_text(const std::optional<double>& ms, const MeasuredBlock& block,
                       const char* mark = "") {
  if (!ms) return "-";
  return fmt::format("{:+.1f} %{}", 100 * FittedBlock::error(*ms, block), mark);
}

std::string errors_text(const char* what, const FitErrors& errors) {
  if (errors.runs == 0) return "";
  return fmt::format("{:<12} median error {:.1f} %, worst {:.1f} %, of {}\n", what,
                     1e-4 * static_cast<double>(errors.median_ppm),
                     1e-4 * static_cast<double>(errors.worst_ppm), counted(errors.runs, "block"));
}

/// `llama3-8b, 1 x 16,384 tokens, eager`.
std::string title_of(const MeasuredBlock& block) {
  return fmt::format("{}, {} x {} tokens, {}", block.model.name, block.model.batch,
                     grouped(block.model.seq), name(block.ops));
}

std::string rates_text(const BlockRates& rates) {
  std::string text =
      fmt::format("GEMMs        {:.1f} TFLOP/s + {:.1f} us + {:.1f} % of their bytes\n",
                  rates.gemm_tflops, 1e-3 * static_cast<double>(rates.gemm_t0_ns),
                  0.1 * static_cast<double>(rates.gemm_exposed_permille));
  const Throttle& throttle = rates.throttle;
  if (throttle.ppm > 0) {
    text += fmt::format("clock        full up to {} TFLOP/s, then -{:.3f} % each\n",
                        throttle.above_tflops, 1e-4 * static_cast<double>(throttle.ppm));
  }
  if (throttle.rested_permille < 1000) {
    text += fmt::format("full clock   {:.1f} % of a kernel's alone that rested\n",
                        0.1 * static_cast<double>(throttle.rested_permille));
  }
  const std::pair<const char*, const std::optional<double>&> operations[] = {
      {"broadcast", rates.operations.broadcast},
      {"strided", rates.operations.strided},
      {"fused", rates.operations.fused}};
  for (const auto& [name, rate] : operations)
    if (rate) text += fmt::format("{:<12} {:.1f} elements a ns\n", name, *rate);
  for (const Kappa& kappa : rates.kappas) {
    text += fmt::format("kappa        {:.3f} {} {}\n", 1e-3 * static_cast<double>(kappa.permille),
                        name(*kappa.ops), *kappa.layers);
  }
  return text;
}

Json predicted_json(const std::optional<double>& ms, const MeasuredBlock& block) {
  if (!ms) return {};
  return {{"ms", *ms}, {"error", FittedBlock::error(*ms, block)}};
}

Json errors_json(const FitErrors& errors) {
  return {
      {"blocks", errors.runs}, {"median_ppm", errors.median_ppm}, {"worst_ppm", errors.worst_ppm}};
}

}  // namespace

FitErrors BlockFitReport::errors(PredictedTime which) const {
  std::vector<std::int64_t> found;
  for (std::size_t index = 0; index < fitted.size(); ++index) {
    const std::optional<double>& ms = fitted[index].*which;
    if (!ms) continue;
    found.push_back(
        std::llabs(std::llround(1e6 * FittedBlock::error(*ms, measured.blocks[index]))));
  }
  if (found.empty()) return {};
  return {.median_ppm = median(found),
          .worst_ppm = *std::ranges::max_element(found),
          .runs = static_cast<std::int64_t>(found.size())};
}

std::string block_fit_json(const BlockFitReport& report) {
  Machine alone = report.machine;
  alone.kernels.clear();
  Json blocks = Json::array();
  for (std::size_t index = 0; index < report.fitted.size(); ++index) {
    const MeasuredBlock& block = report.measured.blocks[index];
    const FittedBlock& fitted = report.fitted[index];
    blocks.push_back({{"model", block.model.name},
                      {"seq", block.model.seq},
                      {"batch", block.model.batch},
                      {"ops", name(block.ops)},
                      {"attention", block.attention},
                      {"measured_ms", block.total_ms},
                      {"fitted", predicted_json(fitted.fitted_ms, block)},
                      {"held_out", predicted_json(fitted.held_out_ms, block)},
                      {"attention_measured", fitted.attention_measured}});
  }
  const Json rest = {
      {"load", report.rates.load ? Json(name(*report.rates.load)) : Json()},
      {"errors", Json({{"fitted", errors_json(report.errors(&FittedBlock::fitted_ms))},
                       {"held_out", errors_json(report.errors(&FittedBlock::held_out_ms))}})},
      {"blocks", std::move(blocks)}};
  return fmt::format(
      "{{\"schema\": \"stagger.block-fit/1\", \"version\": \"{}\",\n\"machine\": {},\n{}\n",
      version(), write_machine_json(alone), rest.text().substr(2));
}

std::string block_fit_text(const BlockFitReport& report, const Terminal& terminal) {
  std::string text = fmt::format("{} ({}): blocks measured on {}\n", printable(report.machine.name),
                                 printable(report.machine.device), printable(report.measured.date));
  if (report.rates.load) text += fmt::format("load         {}\n", name(*report.rates.load));
  text += rates_text(report.rates);
  text += errors_text("fitted", report.errors(&FittedBlock::fitted_ms));
  text += errors_text("held out", report.errors(&FittedBlock::held_out_ms));
  text += fmt::format("\n{:<26} {:>9} {:>8} {:>9}\n", "", "ms", "fitted", "held out");
  bool marked = false;
  std::string last;
  for (std::size_t index = 0; index < report.fitted.size(); ++index) {
    const MeasuredBlock& block = report.measured.blocks[index];
    const FittedBlock& fitted = report.fitted[index];
    const bool mark = fitted.attention_measured && fitted.held_out_ms;
    marked = marked || mark;
    const std::string title = title_of(block);
    if (title != last) text += title + "\n";
    last = title;
    text += fmt::format("  {:<24} {:>9} {:>8} {:>9}\n", printable(block.attention),
                        milliseconds(block.total_ms), error_text(fitted.fitted_ms, block),
                        error_text(fitted.held_out_ms, block, mark ? "*" : ""));
  }
  std::string reading =
      "errors are predicted / measured - 1; held out: by rates that no block of the model had a "
      "part in\n";
  if (marked) {
    reading += "*: with attention's times as measured, of which no other model has rates\n";
  }
  return text + wrapped(reading, terminal.width, 2);
}

}  // namespace stagger::cli
