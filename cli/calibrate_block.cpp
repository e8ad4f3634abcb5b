#include "cli/calibrate_block.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/profile.hpp"
#include "cli/report/block_fit.hpp"
#include "cli/terminal.hpp"
#include "core/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace stagger::cli {
namespace {

/// By name, then shape: a profile that is made again has its lines where they were.
void sort_attention(BlockRates& rates) {
  std::ranges::sort(rates.attention, {}, [](const AttentionRate& rate) {
    return std::tuple(rate.name, -rate.head_dim, rate.causal, rate.heads, rate.seq);
  });
}

/// Where the rates are from.
std::string source_of(const BlockFitReport& report, const std::string& path) {
  std::set<std::string> models;
  for (const block::MeasuredBlock& block : report.measured.blocks)
    models.insert(block.model.name);
  const FitErrors errors = report.errors(&block::FittedBlock::fitted_ms);
  return fmt::format(
      "stagger calibrate --block {}: {} blocks of {} models in PyTorch, of which {} "
      "are predicted with a median error of {:.1f} %, at worst {:.1f} %",
      path, report.measured.blocks.size(), models.size(), errors.runs,
      1e-4 * static_cast<double>(errors.median_ppm), 1e-4 * static_cast<double>(errors.worst_ppm));
}

}  // namespace

int calibrate_block(const Options& options) {
  const std::string& path = options.measured_blocks;
  BlockFitReport report;
  report.measured = block::read_measured_blocks(read_file(path), path);
  report.machine = profile_for(options.output, {.device = report.measured.device,
                                                .driver = report.measured.driver,
                                                .sms = report.measured.sms});
  report.rates = block::fitted_rates(report.measured);
  report.fitted = block::judge_fit(report.measured, report.rates);
  report.rates.source = source_of(report, path);
  sort_attention(report.rates);
  put(report.machine, report.rates);
  write_file(options.output, write_machine_json(report.machine));
  if (options.output == "-") return kHolds;
  if (options.json) {
    write_stdout(block_fit_json(report));
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(block_fit_text(report, terminal), terminal);
  }
  return kHolds;
}

}  // namespace stagger::cli
