#include "cli/report/block.hpp"

#include "cli/report/json.hpp"
#include "cli/report/words.hpp"
#include "core/printable.hpp"
#include "core/text.hpp"
#include "core/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stagger::cli {
namespace {

using block::Pass;
using block::TimedKernel;
using block::Work;

Json operations_json(const std::vector<block::Operation>& operations) {
  Json json = Json::array();
  for (const block::Operation& each : operations) {
    json.push_back({{"name", each.name},
                    {"access", block::kAccessNames[static_cast<int>(each.access)]},
                    {"launches", each.launches},
                    {"elements", each.elements},
                    {"bytes", each.bytes}});
  }
  return json;
}

Json kernel_json(const TimedKernel& timed) {
  const block::Kernel& kernel = timed.kernel;
  Json json = {{"name", kernel.name},
               {"pass", block::kPassNames[static_cast<int>(kernel.pass)]},
               {"flops", kernel.flops},
               {"bytes", kernel.bytes},
               {"launches", kernel.launches},
               {"ms", timed.ms},
               {"bound_by", block::kBoundNames[static_cast<int>(timed.bound_by)]}};
  if (!timed.operations.empty()) json["operations"] = operations_json(timed.operations);
  return json;
}

Json model_json(const block::Transformer& model) {
  Json json = {{"name", model.name},
               {"hidden", model.hidden},
               {"heads", model.heads},
               {"heads_kv", model.heads_kv},
               {"head_dim", model.head_dim},
               {"ffn", model.ffn},
               {"activation", block::kActivationNames[static_cast<int>(model.activation)]},
               {"experts", Json({{"count", model.experts}, {"active", model.experts_active}})},
               {"rope", model.rope},
               {"attention", block::kAttentionNames[static_cast<int>(model.attention)]}};
  if (model.attention == block::Attention::sliding) json["window"] = model.window;
  json["parameters"] = block::active_parameters(model);
  json["source"] = model.source;
  json["uncertain"] = model.uncertain;
  return json;
}

Json replacement_json(const BlockReport& report) {
  if (!report.replacement) return {};
  const block::Replacement& after = *report.replacement;
  Json json = {{"attention_backward_ms", after.attention_backward_ms},
               {"total_ms", after.total_ms},
               {"fraction", after.attention_backward_ms / after.total_ms},
               {"settled", Json({{"clock", report.settled->clock},
                                 {"tflops", report.settled->tflops},
                                 {"total_ms", report.settled->total_ms},
                                 {"block_speedup", report.settled->block_speedup}})},
               {"schedule", nullptr}};
  if (report.schedule) {
    const workbench::AttentionBackward& schedule = *report.schedule;
    json["schedule"] = {{"name", schedule.schedule},
                        {"kernel", schedule.kernel.kernel},
                        {"tile_q", schedule.kernel.tile.q},
                        {"tile_kv", schedule.kernel.tile.kv},
                        {"ns", schedule.ns}};
  }
  return json;
}

/// `5,498`: a number of units, rounded.
std::string rounded(std::int64_t number, std::int64_t unit) {
  return grouped(number / unit + (number % unit >= unit / 2 ? 1 : 0));
}

class BlockText {
 public:
  BlockText(const BlockReport& report, const Terminal& terminal)
      : report_(report), terminal_(terminal) {
    for (const TimedKernel& kernel : report.cost.kernels)
      longest_ = std::max(longest_, kernel.ms);
  }

  [[nodiscard]] std::string text() const {
    return wrapped(heading(), terminal_.width, 6) + "\n" + table() + "\n" +
           wrapped(reading(), terminal_.width, 2);
  }

 private:
  static constexpr int kWithBound = 64;  ///< columns, without bars

  [[nodiscard]] std::string heading() const {
    const block::Transformer& model = report_.model;
    const block::BlockCost& cost = report_.cost;
    std::string text = fmt::format("{}: {}\n", printable(model.name), block::describe(model));
    text += fmt::format("batch {} x {} {}", grouped(model.batch), grouped(model.seq),
                        does(model.seq, "token", "tokens"));
    if (report_.tp > 1) text += fmt::format(", on one of {} tensor parallel devices", report_.tp);
    text += fmt::format("\n{} ({}): ", printable(report_.machine.name),
                        printable(report_.machine.device));
    if (const auto load = report_.rates().load) text += fmt::format("{} load, ", name(*load));
    if (cost.ops) text += fmt::format("{}, ", name(*cost.ops));
    text += fmt::format("kappa {:.2f}", cost.kappa);
    if (cost.norms) {
      text += fmt::format(" (operations counted, norms {})",
                          *cost.norms == block::Norms::fp32 ? "in fp32" : "fused");
    }
    if (!cost.attention.empty()) text += ", attention " + printable(cost.attention);
    if (cost.clock < 1) {
      text += fmt::format(", clock {:.1f} % at {:.0f} TFLOP/s", 100 * cost.clock, cost.tflops);
    }
    return text + "\n";
  }

  [[nodiscard]] std::string table() const {
    std::string text = row("", {"GFLOP", "MB", "ms", "%", "bound by"});
    std::optional<Pass> pass;
    for (const TimedKernel& timed : report_.cost.kernels) {
      if (pass != timed.kernel.pass) {
        text += fmt::format("{}\n", block::kPassNames[static_cast<int>(timed.kernel.pass)]);
      }
      pass = timed.kernel.pass;
      text += line(timed);
    }
    return text + row("block", {"", "", milliseconds(report_.cost.total_ms), "", ""});
  }

  /// What the table says of a kernel, a column each.
  struct Cells {
    std::string gflop;
    std::string mb;
    std::string ms;
    std::string percent;
    std::string bound_by;
  };

  /// A narrow terminal has no room for what bounds a kernel, a narrower one for its work either.
  [[nodiscard]] std::string row(const std::string& name, const Cells& cells,
                                const std::string& bar = "") const {
    constexpr int kWithWork = 54;
    std::string line = fmt::format("{:<21}", name);
    if (terminal_.width >= kWithWork) line += fmt::format(" {:>8} {:>7}", cells.gflop, cells.mb);
    line += fmt::format(" {:>9} {:>5}", cells.ms, cells.percent);
    if (terminal_.width >= kWithBound) line += fmt::format("  {:<8} {}", cells.bound_by, bar);
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  [[nodiscard]] std::string line(const TimedKernel& timed) const {
    const block::Kernel& kernel = timed.kernel;
    // What is left of the terminal is the bar's.
    const double room = std::clamp(terminal_.width - kWithBound - 2, 0, 60);
    const auto cells = static_cast<int>(std::lround(room * timed.ms / longest_));
    std::string bar;
    for (int cell = 0; cell < cells; ++cell)
      bar += terminal_.unicode ? "█" : "#";
    return row(std::string("  ") + kernel.name,
               {.gflop = kernel.flops == 0 ? "-" : rounded(kernel.flops, 1'000'000'000),
                .mb = rounded(kernel.bytes, 1'000'000),
                .ms = milliseconds(timed.ms),
                .percent = fmt::format("{:.1f}", 100 * timed.ms / report_.cost.total_ms),
                .bound_by = block::kBoundNames[static_cast<int>(timed.bound_by)]},
               bar);
  }

  [[nodiscard]] std::string reading() const {
    const block::BlockCost& cost = report_.cost;
    std::string text = fmt::format(
        "attention backward: {} ms, {:.1f} % of the block; however fast, it cannot make the "
        "block more than {:.2f} times as fast\n",
        milliseconds(cost.attention_backward_ms), 100 * cost.fraction(),
        block::most_speedup(cost.fraction()));
    if (report_.replacement) text += replaced();
    text += other_load();
    if (report_.schedule && report_.model.heads_kv != report_.model.heads) {
      text += "not timed there: dK and dV summed over the heads of a group\n";
    }
    if (report_.tp > 1) {
      text += fmt::format("not timed: all-reduces of {} MB in all\n",
                          rounded(block::reduced_bytes(report_.model, report_.tp), 1'000'000));
    }
    if (!report_.model.uncertain.empty())
      text += "of the model: " + printable(report_.model.uncertain) + "\n";
    return text;
  }

  /// What runs on is slower than what runs once: who did not choose should know.
  [[nodiscard]] std::string other_load() const {
    const bool sustained =
        std::ranges::count(report_.machine.blocks, Load::sustained, &BlockRates::load) > 0;
    if (report_.load || report_.rates().load != Load::burst || !sustained) return "";
    return "burst rates hold for a fraction of a second; training runs on: --load sustained\n";
  }

  [[nodiscard]] std::string replaced() const {
    const block::Replacement& after = *report_.replacement;
    std::string text = "replaced";
    if (report_.schedule) {
      const KernelKey& key = report_.schedule->kernel;
      text += fmt::format(" by {} ({}, tiles of {} x {}, {} ms alone)", report_.schedule->schedule,
                          key.kernel, key.tile.kv, key.tile.q,
                          milliseconds(1e-6 * static_cast<double>(report_.schedule->ns)));
    }
    text +=
        fmt::format(": {} ms, {:.3f} times as fast; the block takes {} ms, {:.3f} times as fast\n",
                    milliseconds(after.attention_backward_ms), after.kernel_speedup,
                    milliseconds(after.total_ms), after.block_speedup);
    const block::Settled& settled = *report_.settled;
    if (settled.clock != report_.cost.clock) {
      text += fmt::format(
          "at its own clock, {:.1f} % at {:.0f} TFLOP/s: the block takes {} ms, {:.3f} times as "
          "fast\n",
          100 * settled.clock, settled.tflops, milliseconds(settled.total_ms),
          settled.block_speedup);
    }
    return text;
  }

  const BlockReport& report_;
  const Terminal& terminal_;
  double longest_ = 1e-9;
};

}  // namespace

std::string block_title(const BlockReport& report) {
  const std::optional<Load> load = report.rates().load;
  return fmt::format("{}, {} x {} on {}{}", report.model.name, report.model.batch,
                     counted(report.model.seq, "token"), report.machine.name,
                     load ? fmt::format(", {} load", name(*load)) : "");
}

Json block_json(const BlockReport& report, std::span<const Judgement> judgements) {
  const block::BlockCost& cost = report.cost;
  const BlockRates& rates = report.rates();
  Json kernels = Json::array();
  std::vector<block::Kernel> all;
  for (const TimedKernel& timed : cost.kernels) {
    kernels.push_back(kernel_json(timed));
    all.push_back(timed.kernel);
  }
  const Json totals = {{"gemm_flops", block::flops_of(all, Work::gemm)},
                       {"attention_flops", block::flops_of(all, Work::attention)},
                       {"elementwise_bytes", block::bytes_of(all, Work::elementwise)}};
  Json json = {
      {"schema", "stagger.block/1"},
      {"version", version()},
      {"model", model_json(report.model)},
      {"batch", report.model.batch},
      {"seq", report.model.seq},
      {"tp", report.tp},
      {"machine", report.machine.name},
      {"load", rates.load ? Json(name(*rates.load)) : Json()},
      {"ops", cost.ops ? Json(name(*cost.ops)) : Json()},
      {"kappa", cost.kappa},
      {"norms", cost.norms ? Json(block::kNormsNames[static_cast<int>(*cost.norms)]) : Json()},
      {"attention", cost.attention.empty() ? Json() : Json(cost.attention)},
      {"clock", cost.clock},
      {"tflops", cost.tflops},
      {"rates_source", rates.source},
      {"kernels", std::move(kernels)},
      {"totals", totals},
      {"all_reduce_bytes", block::reduced_bytes(report.model, report.tp)},
      {"kernels_ms", cost.kernels_ms},
      {"total_ms", cost.total_ms},
      {"attention_backward_ms", cost.attention_backward_ms},
      {"fraction", cost.fraction()},
      {"most_block_speedup", block::most_speedup(cost.fraction())},
      {"kernel_speedup", report.kernel_speedup()},
      {"block_speedup", report.block_speedup()},
      {"replaced", replacement_json(report)}};
  if (!judgements.empty()) json["expectations"] = judgements_json(judgements);
  return json;
}

std::string block_text(const BlockReport& report, const Terminal& terminal) {
  return BlockText(report, terminal).text();
}

}  // namespace stagger::cli
