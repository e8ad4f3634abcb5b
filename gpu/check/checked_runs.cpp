#include "gpu/check/checked_runs.hpp"

#include "core/error.hpp"
#include "core/median.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

namespace stagger::gpu {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  });
}

/// Compares sums that both runs keep.
bool same_sums(const std::vector<float>& left, const std::vector<float>& right) {
  return left.empty() || right.empty() || same_bits(left, right);
}

/// Compares the sums too: a 16-bit dQ hides most of what happens to their last bits.
bool same_bits(const Backward& left, const Backward& right) {
  return same_bits(left.gradients.dq, right.gradients.dq) &&
         same_bits(left.gradients.dk, right.gradients.dk) &&
         same_bits(left.gradients.dv, right.gradients.dv) &&
         same_bits(left.dq_sums, right.dq_sums) && same_sums(left.dk_sums, right.dk_sums) &&
         same_sums(left.dv_sums, right.dv_sums);
}

/// The options of one run: each but the first has delays of its own.
BackwardOptions options_of(const BackwardOptions& options, std::int64_t repeat) {
  BackwardOptions each = options;
  each.perturb = std::nullopt;
  if (options.perturb && repeat > 0) {
    each.perturb = *options.perturb + static_cast<std::uint64_t>(repeat) - 1;
  }
  return each;
}

class Check {
 public:
  /// Checks a replay if there is no attention.
  Check(const Table& table, const BackwardOptions& options, const Attention* attention = nullptr,
        const ReferenceGradients* exact = nullptr)
      : table_(table), attention_(attention), exact_(exact), mode_(options.mode) {
    result_.dtype = options.dtype;
    if (attention != nullptr) result_.bound = error_bound(attention->shape, options.dtype);
  }

  /// Takes a run's results; false if it did not finish.
  [[nodiscard]] bool add(Backward run, bool perturbed) {
    if (run.outcome != Outcome::finished) {
      result_.verdict =
          run.outcome == Outcome::deadlock ? RunVerdict::deadlock : RunVerdict::timeout;
      result_.run = std::move(run);
      return false;
    }
    check_order(run);
    if (!perturbed) elapsed_ns_.push_back(run.elapsed_ns);
    const bool first = result_.repeats++ == 0;
    if (attention_ != nullptr) first ? check_first(run) : check_bits(run);
    if (first) result_.run = std::move(run);
    return true;
  }

  CheckedRuns finish() {
    result_.median_ns = median(std::move(elapsed_ns_));
    if (result_.verdict == RunVerdict::ok && !result_.faults.empty()) {
      result_.verdict = RunVerdict::mismatch;
    }
    return std::move(result_);
  }

 private:
  void check_first(const Backward& run) {
    if (exact_ != nullptr) judge(run);
    result_.digests = digests(run.gradients);
    if (run.partials.empty()) return;
    const auto dq = reaccumulate(table_, attention_->shape, run.partials);
    if (!dq) return;  // ranks that are no order, which are an order fault whatever the run did
    result_.reaccumulated = same_bits(*dq, run.dq_added());
    if (!*result_.reaccumulated) {
      fault("reaccumulation",
            "the run's own dQ partials, added in the order of the table, give other bits than dQ");
    }
    if (!run.dk_partials.empty()) check_parts(run);
  }

  void check_parts(const Backward& run) {
    const auto sums = reaccumulate_dkv(table_, run, result_.dtype);
    if (!sums) return;
    if (same_bits(sums->dk, run.dk_added()) && same_bits(sums->dv, run.dv_added())) return;
    result_.reaccumulated = false;
    fault(
        "reaccumulation",
        "the parts' own dK and dV, added in the order of the table, give other bits than the sums");
  }

  void judge(const Backward& run) {
    GradientErrors errors{.dq = std::nullopt,
                          .dk = deviation(run.gradients.dk, exact_->dk),
                          .dv = deviation(run.gradients.dv, exact_->dv)};
    if (mode_ != Mode::no_reduce) errors.dq = deviation(run.gradients.dq, exact_->dq);
    if (errors.dq) check_error("dQ", *errors.dq);
    check_error("dK", errors.dk);
    check_error("dV", errors.dv);
    result_.errors = errors;
  }

  void check_error(const std::string& name, const Deviation& error) {
    // Not >, which would let pass what is not a number.
    if (error.frobenius <= result_.bound && error.most <= result_.bound) return;
    fault("gradient", name + " is " + number(error.frobenius) + " (at worst " + number(error.most) +
                          ") from the reference; it is held to " + number(result_.bound));
  }

  void check_bits(const Backward& run) {
    if (same_bits(run, result_.run)) return;
    result_.dq_difference = std::max(
        result_.dq_difference, largest_difference(run.gradients.dq, result_.run.gradients.dq));
    if (std::exchange(result_.identical, false) && mode_ != Mode::atomic) {
      fault("bits", "run " + std::to_string(result_.repeats) + " gives other bits than the first");
    }
  }

  void check_order(const Backward& run) {
    const std::vector<std::string> faults = order_faults(table_, run, 3);
    if (faults.empty()) return;
    if (std::exchange(result_.order_matches, false) && mode_ == Mode::deterministic) {
      for (const std::string& message : faults)
        fault("order", message);
    }
  }

  void fault(const char* kind, std::string message) {
    result_.faults.push_back({kind, std::move(message)});
  }

  const Table& table_;
  const Attention* attention_;
  const ReferenceGradients* exact_;
  Mode mode_;
  std::vector<std::int64_t> elapsed_ns_;  ///< of the runs without delays
  CheckedRuns result_;
};

/// Does run(0), run(1) and so on, while each finishes and `goes_on` says so.
template <class Run>
void repeat(std::int64_t repeats, const GoesOn& goes_on, Run run) {
  STAGGER_EXPECTS(repeats >= 1);
  for (std::int64_t finished = 0; run(finished);) {
    if (++finished == repeats || (goes_on && !goes_on(finished))) return;
  }
}

/// Plays run(options) untimed, again and again.
template <class Run>
UntimedRuns untimed_runs_of(const BackwardOptions& options, int runs, Run run) {
  BackwardOptions each = options;
  each.stamped = false;
  each.perturb = std::nullopt;
  UntimedRuns untimed;
  while (std::ssize(untimed.elapsed_ns) < runs) {
    untimed.last = run(each);
    if (untimed.last.outcome != Outcome::finished) break;
    untimed.elapsed_ns.push_back(untimed.last.elapsed_ns);
  }
  return untimed;
}

}  // namespace

const char* verdict_name(RunVerdict verdict) {
  constexpr const char* kNames[] = {"ok", "mismatch", "deadlock", "timeout"};
  return kNames[static_cast<int>(verdict)];
}

CheckedRuns check_runs(const Table& table, const Attention& attention,
                       const ReferenceGradients* exact, const BackwardOptions& options,
                       std::int64_t repeats, Device device, bool partials, const GoesOn& goes_on) {
  Check check(table, options, &attention, exact);
  repeat(repeats, goes_on, [&](std::int64_t run) {
    BackwardOptions each = options_of(options, run);
    each.keep_partials = partials && run == 0 && options.mode == Mode::deterministic;
    return check.add(device(table, attention, each), each.perturb.has_value());
  });
  return check.finish();
}

CheckedRuns check_replays(const Table& table, const BackwardOptions& options, std::int64_t repeats,
                          const Replay& replay, const GoesOn& goes_on) {
  Check check(table, options);
  repeat(repeats, goes_on, [&](std::int64_t run) {
    const BackwardOptions each = options_of(options, run);
    return check.add(replay.device(table, replay.times, each), each.perturb.has_value());
  });
  return check.finish();
}

UntimedRuns untimed_runs(const Table& table, const Attention& attention,
                         const BackwardOptions& options, int runs, Device device) {
  return untimed_runs_of(
      options, runs, [&](const BackwardOptions& each) { return device(table, attention, each); });
}

UntimedRuns untimed_replays(const Table& table, const BackwardOptions& options, int runs,
                            const Replay& replay) {
  return untimed_runs_of(options, runs, [&](const BackwardOptions& each) {
    return replay.device(table, replay.times, each);
  });
}

void check_untimed_runs(const UntimedRuns& untimed, Mode mode, CheckedRuns& checked) {
  STAGGER_EXPECTS(checked.verdict == RunVerdict::ok);
  const std::string finished =
      counted(std::ssize(untimed.rested_ns) + std::ssize(untimed.elapsed_ns), "untimed run");
  if (untimed.last.outcome != Outcome::finished) {
    checked.faults.push_back({"stopped", "after " + finished +
                                             " that finished, one was stopped: a task "
                                             "waited for longer than the timeout"});
  } else if (mode != Mode::atomic && !same_bits(untimed.last, checked.run)) {
    checked.identical = false;
    checked.faults.push_back(
        {"bits", "after " + finished + " the gradients have other bits than the first run's"});
  }
  if (!checked.faults.empty()) {
    checked.verdict = RunVerdict::mismatch;
    return;
  }
  if (!untimed.elapsed_ns.empty()) checked.untimed_median_ns = median(untimed.elapsed_ns);
  if (!untimed.rested_ns.empty()) checked.rested_median_ns = median(untimed.rested_ns);
}

}  // namespace stagger::gpu
