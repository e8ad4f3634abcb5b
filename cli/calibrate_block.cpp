#include "cli/calibrate_block.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/report/block_fit.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace stagger::cli {
namespace {

/// The profile in the file, or a new one named like it. Throws Error{usage} if it is another
/// device's.
Machine profile_for(const std::string& path, const block::MeasuredBlocks& measured) {
  if (path == "-" || !std::filesystem::exists(path)) {
    return {.name = path == "-" ? "machine" : std::filesystem::path(path).stem().string(),
            .device = measured.device,
            .driver = measured.driver,
            .sms = measured.sms};
  }
  Machine machine = read_machine_json(read_file(path), path);
  if (machine.device == measured.device && machine.sms == measured.sms) return machine;
  throw Error(ErrorKind::usage,
              fmt::format("{} is of {} ({} SMs), and the blocks are of {} ({} SMs): give another "
                          "file",
                          path, machine.device, machine.sms, measured.device, measured.sms));
}

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
  report.machine = profile_for(options.output, report.measured);
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
