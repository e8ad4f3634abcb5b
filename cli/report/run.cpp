#include "cli/report/run.hpp"

#include "cli/report/text.hpp"
#include "cli/report/words.hpp"
#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace stagger::cli {
namespace {

using workbench::Analysis;
using workbench::Clock;
using workbench::Execution;

std::string error_line(const char* name, const gpu::Deviation& error) {
  return fmt::format("{} {:.1e} (worst element {:.1e})", name, error.frobenius, error.most);
}

/// The waits that explain the others: those for a value that no task brings, or, where each waits
/// for another, all.
std::vector<Wait> culprits_of(const std::vector<Wait>& waits) {
  std::vector<Wait> culprits;
  std::ranges::copy_if(waits, std::back_inserter(culprits),
                       [](const Wait& wait) { return wait.launched && !wait.promised; });
  return culprits.empty() ? waits : culprits;
}

class RunReport {
 public:
  RunReport(const Execution& execution, const Terminal& terminal)
      : execution_(execution),
        analysis_(execution.analysis),
        terminal_(terminal),
        wall_(unit_of_ns(execution.runs ? execution.runs->median_ns : 0)) {}

  std::string text() {
    line("problem", describe(analysis_.table.problem));
    if (const std::int64_t tiles = execution_.assumed_tiles(); tiles > 0) {
      line("assumed", assumed_words(tiles));
    }
    line("schedule", schedule_line(analysis_));
    line("device", device());
    if (execution_.dropout) line("dropout", dropout());
    line("verdict", verdict());
    findings();
    if (!execution_.runs) return std::move(text_);
    if (execution_.stopped()) waiting();
    if (execution_.runs->errors) {
      gradients();
    } else if (!execution_.kernel->spins() && !execution_.stopped()) {
      line("gradients", "not judged: no reference was asked for");
    }
    if (!execution_.runs->digests.dq.empty()) bits();
    if (execution_.runs->repeats > 0) {
      order();
      times();
    }
    return std::move(text_);
  }

 private:
  void line(const char* label, const std::string& value) {
    text_ += labelled(paint("2", label), value, terminal_.width);
  }
  [[nodiscard]] std::string paint(const char* code, const std::string& what) const {
    return terminal_.color ? fmt::format("\033[{}m{}\033[0m", code, what) : what;
  }

  [[nodiscard]] std::string device() const {
    const gpu::BackwardOptions& options = execution_.options;
    return fmt::format("{}; {}, {}{}", processor(), work(), gpu::mode_name(options.mode),
                       options.perturb ? fmt::format(", perturbed by {}", *options.perturb) : "");
  }
  [[nodiscard]] std::string processor() const {
    if (execution_.cuda) {
      return fmt::format("cuda ({}, {} SMs, CUDA {})", execution_.device, execution_.cuda->sms,
                         execution_.cuda->driver);
    }
    const std::int32_t threads = execution_.options.threads;
    return fmt::format("cpu ({}), {}", execution_.device, counted(threads, "thread"));
  }
  [[nodiscard]] std::string work() const {
    if (execution_.kernel->spins()) {
      return fmt::format("replay, a tick is {} ns", execution_.tick_ns);
    }
    return fmt::format("{}, head_dim {}, seed {}", gpu::dtype_name(execution_.options.dtype),
                       execution_.shape.head_dim, execution_.seed);
  }

  [[nodiscard]] std::string dropout() const {
    const gpu::DropoutOptions& asked = *execution_.dropout;
    const gpu::DropoutRule rule = gpu::dropout_rule(asked);
    std::string text = fmt::format(
        "p = {:g} with {} bits: keeps {} of 2^{} values, so drops {:.6g}, and scales by {:.6g}; "
        "Philox-4x32-{}, seed {}, offset {}; bits are {}",
        asked.probability, rule.bits, rule.threshold, rule.bits, 1 - gpu::kept_part(rule),
        gpu::keep_scale(rule), rule.rounds, asked.seed, asked.offset,
        gpu::mask_bits_name(asked.mask_bits));
    if (execution_.stored_bytes() > 0) {
      text += fmt::format(", {} bytes", execution_.stored_bytes());
    }
    return text;
  }

  [[nodiscard]] std::string verdict() const {
    if (!execution_.refused.empty()) return paint("31;1", "refused") + ": " + execution_.refused;
    if (!execution_.runs) {
      return paint("31;1", execution_.verdict()) + ": not a table that can be run";
    }
    if (execution_.stopped()) {
      return paint("31;1", execution_.verdict()) + ": " + why_stopped(execution_);
    }
    if (execution_.runs->verdict != gpu::RunVerdict::ok) return paint("31;1", execution_.verdict());
    constexpr const char* kPromises[] = {"right gradients, the same bits, the table's order",
                                         "right gradients, in any order", "right dK and dV"};
    constexpr const char* kReplayPromises[] = {"the table's order", "any order", "no order"};
    if (execution_.kernel->spins()) {
      return paint("32", "ok") + ": " + kReplayPromises[static_cast<int>(execution_.options.mode)];
    }
    constexpr const char* kUnjudged[] = {"the same bits, the table's order", "any order",
                                         "no order"};
    const char* const* promises = execution_.runs->errors ? kPromises : kUnjudged;
    return paint("32", "ok") + ": " + promises[static_cast<int>(execution_.options.mode)];
  }

  void findings() {
    constexpr std::size_t kShown = 3;
    const char* label = "findings";
    const auto& found = analysis_.verification.findings;
    for (std::size_t index = 0; index < std::min(kShown, found.size()); ++index) {
      line(std::exchange(label, ""),
           paint("31", dag::finding_name(found[index].kind)) + ": " + found[index].message);
    }
    if (found.size() > kShown) {
      line("", fmt::format("and {} more of the table; --json lists them",
                           analysis_.verification.total - std::int64_t{kShown}));
    }
    if (!execution_.runs) return;
    for (const gpu::RunFault& fault : execution_.runs->faults)
      line(std::exchange(label, ""), paint("31", fault.kind) + ": " + fault.message);
  }

  void waiting() {
    constexpr std::size_t kShown = 8;
    const Table& table = analysis_.table;
    const std::vector<Wait> all = gpu::waits(table, execution_.runs->run);
    const std::vector<Wait> culprits = culprits_of(all);
    const auto lines = describe(culprits, table.dispatch);
    for (std::size_t index = 0; index < std::min(kShown, lines.size()); ++index)
      line(index == 0 ? "stuck" : "", lines[index]);
    if (lines.size() > kShown) {
      line("", "… --json lists them all");
    } else if (culprits.size() < all.size()) {
      line("", fmt::format("and {} that wait for these; --json lists them",
                           all.size() - culprits.size()));
    }
    line("dQ", hanging_line(table.problem, hanging_tiles(execution_)));
  }

  void gradients() {
    const gpu::CheckedRuns& runs = *execution_.runs;
    const auto& [dq, dk, dv] = *runs.errors;
    line("gradients",
         fmt::format("relative Frobenius error against double precision{}:",
                     execution_.device_reference ? " on the device" : ", without tiles"));
    if (dq) line("", error_line("dQ", *dq));
    line("", error_line("dK", dk));
    line("", error_line("dV", dv));
    line("", fmt::format("held to {:.1e} = {}", runs.bound, bound()));
  }

  [[nodiscard]] const char* bound() const {
    constexpr const char* kBounds[] = {
        "8 * 2^-24 * sqrt(additions): roundings of fp32 add up like a random walk",
        "6 * 2^-8 + fp32's bound: roundings of P, dS and the gradient",
        "6 * (2^-11 + 2^-25 * tokens) + fp32's bound: roundings of P, dS and the gradient"};
    return kBounds[static_cast<int>(execution_.runs->dtype)];
  }

  void bits() {
    const gpu::CheckedRuns& runs = *execution_.runs;
    line("bits", fmt::format("{} in {}{}", runs.identical ? "the same" : "NOT the same",
                             counted(runs.repeats, "run"),
                             execution_.options.perturb ? ", all but the first perturbed" : ""));
    line("FNV-1a",
         fmt::format("dQ {}, dK {}, dV {}", runs.digests.dq, runs.digests.dk, runs.digests.dv));
    if (!runs.identical) {
      line("", fmt::format("largest difference of an element of dQ: {:.1e}", runs.dq_difference));
    }
    if (runs.reaccumulated) {
      line("", fmt::format("dQ's partials, added by the host by rank, give {} bits",
                           *runs.reaccumulated ? "the same" : "OTHER"));
    }
    if (execution_.lost_partials > 0) {
      line("", fmt::format("dQ's partials take {:.1f} GiB: not kept, and not added by the host",
                           static_cast<double>(execution_.lost_partials) / (1 << 30)));
    }
  }

  void order() {
    if (execution_.options.mode == gpu::Mode::no_reduce) return;
    const bool promised = execution_.options.mode == gpu::Mode::deterministic;
    if (promised && analysis_.ok() && !execution_.kernel->spins()) {
      line("orders", orders_line(orders_of(analysis_, execution_.shape.head_dim),
                                 analysis_.table.problem.heads));
    }
    line("order", execution_.runs->order_matches ? "of every dQ tile as its ranks say, in every run"
                  : promised                     ? "NOT as the ranks say"
                             : "another than the ranks'; this mode promises none");
  }

  void times() {
    if (execution_.runs->median_ns == 0) return;
    const std::int64_t median = execution_.runs->median_ns;
    line("measured",
         execution_.kernel->spins()
             ? fmt::format("{}, of which {} from the first task to the last", wall_.text(median),
                           wall_.number(measured_makespan(execution_)))
             : fmt::format("{}, {:.2f} GFLOP/s", wall_.text(median),
                           execution_.flops / static_cast<double>(median)));
    if (execution_.cuda) device_times();
    if (!analysis_.ok()) return;
    const Ticks all = analysis_.bubbles.total() + analysis_.bubbles.busy;
    line("predicted", fmt::format("{} ({}), {} bubbles", predicted_unit().text(analysis_.makespan),
                                  model_line(analysis_.model),
                                  percent(analysis_.bubbles.total(), std::max<Ticks>(all, 1))));
    if (execution_.is_predicted()) {
      against_profile();
    } else if (execution_.kernel->spins() && analysis_.model.clock == Clock::ticks) {
      against_prediction();
    }
  }

  /// That of what was measured, if the two are held against each other.
  [[nodiscard]] TimeUnit predicted_unit() const {
    if (execution_.is_predicted()) return wall_;
    return unit_of(analysis_.model.unit(), analysis_.makespan);
  }

  void device_times() {
    const std::int64_t hand_over = gpu::median_hand_over_ns(analysis_.table, execution_.runs->run);
    if (hand_over > 0) {
      line("", fmt::format("a hand-over that was waited for took {} (median)",
                           unit_of_ns(hand_over).text(hand_over)));
    }
    if (const gpu::ClockDip& dip = execution_.runs->run.dip; dip.ns > 0 && dip.lost_ns > 0) {
      line("",
           fmt::format("the clock dipped for the first {}: {} lost",
                       unit_of_ns(dip.ns).text(dip.ns), unit_of_ns(dip.lost_ns).text(dip.lost_ns)));
    }
    if (stamp_overhead(execution_)) {
      const std::int64_t untimed = *execution_.runs->untimed_median_ns;
      const double rate = execution_.flops / static_cast<double>(untimed) / 1e3;
      line("", fmt::format("{}{} untimed; each task's stamps cost {:.1f} %", wall_.text(untimed),
                           execution_.kernel->spins() ? "" : fmt::format(", {:.1f} TFLOP/s,", rate),
                           100 * *stamp_overhead(execution_)));
    }
    if (const auto rested = execution_.runs->rested_median_ns) {
      line("",
           fmt::format("{}, {:.1f} TFLOP/s, untimed and after a pause each", wall_.text(*rested),
                       execution_.flops / static_cast<double>(*rested) / 1e3));
    }
  }

  void against_profile() {
    const auto add = [&](const std::string& what, Ticks predicted, std::int64_t measured) {
      line("", fmt::format("{}: predicted {}, measured {}: {:+.1f} %", what, wall_.text(predicted),
                           wall_.text(measured), 100 * workbench::error_of(predicted, measured)));
    };
    add("first task to last", analysis_.last_reduction, measured_makespan(execution_));
    add("whole run", predicted_elapsed(analysis_), execution_.runs->median_ns);
    const auto add_untimed = [&](const std::string& which, std::optional<std::int64_t> median_ns) {
      if (const auto makespan = untimed_makespan(execution_, median_ns)) {
        add(which + ", first task to last", analysis_.last_reduction, *makespan);
      }
      if (median_ns) add(which + ", whole run", predicted_elapsed(analysis_), *median_ns);
    };
    add_untimed("untimed", execution_.runs->untimed_median_ns);
    add_untimed("rested", execution_.runs->rested_median_ns);
  }

  void against_prediction() {
    const Ticks predicted = analysis_.makespan * execution_.tick_ns;
    line("", fmt::format("= {}; measured {:+.1f} %", wall_.text(predicted),
                         100 * (static_cast<double>(measured_makespan(execution_)) /
                                    static_cast<double>(predicted) -
                                1)));
  }

  const Execution& execution_;
  const Analysis& analysis_;
  const Terminal& terminal_;
  TimeUnit wall_;  ///< of what was measured
  std::string text_;
};

}  // namespace

std::string run_text(const Execution& execution, const Terminal& terminal) {
  return RunReport(execution, terminal).text();
}

}  // namespace stagger::cli
