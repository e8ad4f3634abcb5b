#include "workbench/block/cost.hpp"

#include "core/error.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace stagger::block {
namespace {

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

std::string word_of(std::optional<Ops> ops, const std::string& absent = "") {
  return ops ? name(*ops) : absent;
}

const Kappa& kappa_of(const Machine& machine, const std::vector<Kappa>& kappas,
                      const Transformer& model, std::optional<Ops> ops) {
  const std::string layers = layers_of(model);
  const auto fits = [&](const Kappa& kappa) {
    return (!ops || !kappa.ops || *kappa.ops == *ops) && (!kappa.layers || *kappa.layers == layers);
  };
  const auto found = std::ranges::find_if(kappas, fits);
  if (found != kappas.end()) return *found;
  std::string known;
  for (const Kappa& kappa : kappas) {
    known += (known.empty() ? "" : ", ") + word_of(kappa.ops, "any ops") + " " +
             kappa.layers.value_or("any layers");
  }
  reject("the machine profile '" + machine.name + "' has no kappa of " +
         (ops ? word_of(ops) + " " : "") + layers + " layers; it has those of " +
         (known.empty() ? "none" : known) + " (--kappa gives one)");
}

/// Of the entries those of as many heads; else those of any, else those of the number nearest.
void keep_heads(std::vector<AttentionRate>& entries, std::int64_t heads) {
  const auto distance = [heads](const AttentionRate& entry) {
    return entry.heads
               ? std::abs(std::log(static_cast<double>(*entry.heads) / static_cast<double>(heads)))
               : 1e-6;
  };
  const auto nearest = std::ranges::min_element(entries, {}, distance);
  if (nearest == entries.end()) return;
  const std::optional<std::int64_t> kept = nearest->heads;
  std::erase_if(entries, [&](const AttentionRate& entry) { return entry.heads != kept; });
}

/// The entries of one implementation at a device's head_dim, mask and heads, by sequence.
std::vector<AttentionRate> rates_at(const BlockRates& rates, const Transformer& model,
                                    const std::string& name) {
  const bool causal = model.attention != Attention::full;
  std::vector<AttentionRate> fitting;
  for (const AttentionRate& rate : rates.attention) {
    if (rate.head_dim != model.head_dim || rate.causal != causal) continue;
    if (rate.name == (name.empty() && !fitting.empty() ? fitting.front().name
                      : name.empty()                   ? rate.name
                                                       : name)) {
      fitting.push_back(rate);
    }
  }
  keep_heads(fitting, model.batch * model.heads);
  std::ranges::sort(fitting, {}, &AttentionRate::seq);
  return fitting;
}

[[noreturn]] void reject_attention(const Machine& machine, const BlockRates& rates,
                                   const Transformer& model, const std::string& name) {
  std::set<std::string> names;
  std::string known;
  for (const AttentionRate& rate : rates.attention) {
    names.insert(rate.name);
    const std::string shape = rate.name + " (head_dim " + std::to_string(rate.head_dim) +
                              (rate.causal ? ", causal)" : ", full)");
    if (known.find(shape) == std::string::npos) known += (known.empty() ? "" : ", ") + shape;
  }
  if (!name.empty() && names.count(name) == 0) {
    reject(unknown_name("attention", name, std::vector<std::string>(names.begin(), names.end())));
  }
  reject("the machine profile '" + machine.name + "' has no rates of " +
         (name.empty() ? "attention" : name) + " at head_dim " + std::to_string(model.head_dim) +
         (model.attention == Attention::full ? ", full" : ", causal") + "; it has " +
         (known.empty() ? "none" : known) +
         " (--attn-fwd-ms and --attn-bwd-ms give the times themselves)");
}

class Cost {
 public:
  Cost(const Transformer& model, const CostRequest& request)
      : model_(model), request_(request), rates_(block_rates_of(request.machine, request.load)) {}

  BlockCost run() {
    if (request_.norms) {
      STAGGER_EXPECTS(!request_.kappa);
      cost_.norms = request_.norms;
      cost_.ops = Ops::eager;
    } else if (request_.kappa) {
      cost_.ops = request_.ops;
      cost_.kappa = *request_.kappa;
    } else {
      const Kappa& kappa = kappa_of(request_.machine, rates_.kappas, model_, request_.ops);
      cost_.ops = kappa.ops.value_or(request_.ops.value_or(Ops::eager));
      cost_.kappa = 1e-3 * static_cast<double>(kappa.permille);
    }
    const bool backward_given =
        request_.attention_backward_ms || request_.attention_backward_rested_ms;
    if (!request_.attention_forward_ms || !backward_given) find_attention();
    const std::vector<Kernel> kernels = kernels_of(model_, request_.tp);
    cost_.clock = settled_clock(kernels);
    for (const Kernel& kernel : kernels)
      add(timed(kernel, cost_.clock));
    cost_.tflops = gflops_of(kernels) / cost_.kernels_ms;
    if (request_.norms) cost_.kappa = elementwise_ms_ / copied_ms_;
    cost_.total_ms = request_.block_ms.value_or(cost_.kernels_ms);
    if (!(cost_.total_ms > cost_.attention_backward_ms && cost_.attention_backward_ms > 0)) {
      reject("the block must take longer than its attention backward, and that must take time");
    }
    return std::move(cost_);
  }

 private:
  void find_attention() {
    const auto entries = rates_at(rates_, shard_, request_.attention);
    if (entries.empty()) reject_attention(request_.machine, rates_, model_, request_.attention);
    cost_.attention = entries.front().name;
    for (const AttentionRate& entry : entries) {
      const auto seq = static_cast<double>(entry.seq);
      forward_.push_back({seq, entry.forward_tflops});
      backward_.push_back({seq, entry.backward_tflops});
    }
  }

  /// The clock at which the block reaches as many TFLOP/s as that clock is of. The higher it is the
  /// more are reached, and the less would be left of it: there is one.
  [[nodiscard]] double settled_clock(const std::vector<Kernel>& kernels) const {
    const double gflops = gflops_of(kernels);
    const auto left = [&](double clock) {
      double ms = 0;
      for (const Kernel& kernel : kernels)
        ms += timed(kernel, clock).ms;
      return rates_.throttle.clock(gflops / ms);
    };
    double high = 1;
    if (left(high) >= high) return high;
    double low = Throttle::kLeastClock;
    for (int halving = 0; halving < 60; ++halving) {
      const double middle = (low + high) / 2;
      (left(middle) >= middle ? low : high) = middle;
    }
    return low;
  }

  void add(TimedKernel timed) {
    const Kernel& kernel = timed.kernel;
    cost_.kernels_ms += timed.ms;
    if (kernel.work == Work::elementwise) {
      elementwise_ms_ += timed.ms;
      copied_ms_ += rates_.copied_ms(kernel.bytes);
    }
    if (kernel.work == Work::attention && kernel.pass == Pass::backward) {
      cost_.attention_backward_ms = timed.ms;
    }
    cost_.kernels.push_back(std::move(timed));
  }

  [[nodiscard]] TimedKernel timed(const Kernel& kernel, double clock) const {
    if (kernel.work == Work::elementwise) return timed_elementwise(kernel);
    return kernel.work == Work::gemm ? timed_gemm(kernel, clock) : timed_attention(kernel, clock);
  }

  [[nodiscard]] TimedKernel timed_elementwise(const Kernel& kernel) const {
    TimedKernel timed{.kernel = kernel, .bound_by = Bound::memory};
    if (request_.norms) timed.operations = operations_of(shard_, kernel, *request_.norms);
    timed.ms = request_.norms ? operations_ms(timed.operations)
                              : cost_.kappa * rates_.copied_ms(kernel.bytes);
    return timed;
  }

  [[nodiscard]] TimedKernel timed_gemm(const Kernel& kernel, double clock) const {
    const double copied = rates_.copied_ms(kernel.bytes);
    const double exposed = 1e-3 * static_cast<double>(rates_.gemm_exposed_permille) * copied;
    const double computed = gflops(kernel) / (rates_.gemm_tflops * clock) + exposed;
    const double t0 = 1e-6 * static_cast<double>(rates_.gemm_t0_ns * kernel.launches);
    return {.kernel = kernel,
            .ms = t0 + std::max(computed, copied),
            .bound_by = copied > computed ? Bound::memory : Bound::compute};
  }

  [[nodiscard]] TimedKernel timed_attention(const Kernel& kernel, double clock) const {
    const bool forward = kernel.pass == Pass::forward;
    const auto& given = forward ? request_.attention_forward_ms : request_.attention_backward_ms;
    if (given) return {.kernel = kernel, .ms = *given, .bound_by = Bound::given};
    if (!forward && request_.attention_backward_rested_ms) {
      const double ms = rates_.throttle.within_ms(*request_.attention_backward_rested_ms, clock);
      return {.kernel = kernel, .ms = ms, .bound_by = Bound::given};
    }
    const double tflops =
        rate_at(forward ? forward_ : backward_, static_cast<double>(model_.seq)) * clock;
    return {.kernel = kernel, .ms = gflops(kernel) / tflops, .bound_by = Bound::compute};
  }

  // 1 TFLOP/s is 1 GFLOP a ms.
  static double gflops(const Kernel& kernel) { return 1e-9 * static_cast<double>(kernel.flops); }

  [[nodiscard]] double operations_ms(const std::vector<Operation>& operations) const {
    double ms = 0;
    for (const Operation& operation : operations) {
      // 1 element a ns is 1e6 elements a ms.
      const double once =
          operation.access == Access::streamed
              ? rates_.copied_ms(operation.bytes)
              : 1e-6 * static_cast<double>(operation.elements) / operation_rate(operation.access);
      ms += static_cast<double>(operation.launches) * once;
    }
    return ms;
  }

  [[nodiscard]] double operation_rate(Access access) const {
    const OperationRates& rates = rates_.operations;
    const std::optional<double>& rate = access == Access::broadcast ? rates.broadcast
                                        : access == Access::strided ? rates.strided
                                                                    : rates.fused;
    if (rate) return *rate;
    reject("the machine profile '" + request_.machine.name + "' has no rate of " +
           kAccessNames[static_cast<int>(access)] +
           " operations (its key 'operations'; `stagger calibrate --block` fits it)");
  }

  const Transformer& model_;
  const CostRequest& request_;
  const BlockRates& rates_;
  Transformer shard_ = shard_of(model_, request_.tp);
  double elementwise_ms_ = 0;
  double copied_ms_ = 0;
  std::vector<RateAt> forward_;
  std::vector<RateAt> backward_;
  BlockCost cost_;
};

}  // namespace

const char* layers_of(const Transformer& model) {
  if (model.experts > 1) return "experts";
  return kActivationNames[static_cast<int>(model.activation)];
}

BlockCost cost_of(const Transformer& model, const CostRequest& request) {
  return Cost(model, request).run();
}

}  // namespace stagger::block
