#include "workbench/block/cost.hpp"

#include "core/error.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <set>

namespace stagger::block {
namespace {

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

const BlockRates& rates_of(const Machine& machine) {
  if (!machine.block) {
    reject("the machine profile '" + machine.name + "' has no rates of blocks (its key 'block')");
  }
  return *machine.block;
}

std::string word_of(std::optional<Ops> ops, const std::string& absent = "") {
  return ops ? name(*ops) : absent;
}

const Kappa& kappa_of(const Machine& machine, const Transformer& model, std::optional<Ops> ops) {
  const std::vector<Kappa>& kappas = rates_of(machine).kappas;
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

/// The entries of one implementation at the model's head_dim and mask, by sequence.
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
  std::ranges::sort(fitting, {}, &AttentionRate::seq);
  return fitting;
}

[[noreturn]] void reject_attention(const Machine& machine, const Transformer& model,
                                   const std::string& name) {
  std::set<std::string> names;
  std::string known;
  for (const AttentionRate& rate : machine.block->attention) {
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
      : model_(model), request_(request), rates_(rates_of(request.machine)) {}

  BlockCost run() {
    if (request_.norms) {
      STAGGER_EXPECTS(!request_.kappa);
      cost_.norms = request_.norms;
    } else if (request_.kappa) {
      cost_.ops = request_.ops.value_or(Ops::eager);
      cost_.kappa = *request_.kappa;
    } else {
      const Kappa& kappa = kappa_of(request_.machine, model_, request_.ops);
      cost_.ops = kappa.ops.value_or(request_.ops.value_or(Ops::eager));
      cost_.kappa = 1e-3 * static_cast<double>(kappa.permille);
    }
    if (!request_.attention_forward_ms || !request_.attention_backward_ms) find_attention();
    for (Kernel& kernel : kernels_of(model_, request_.tp))
      add(std::move(kernel));
    if (request_.norms) cost_.kappa = elementwise_ms_ / copied_ms_;
    cost_.total_ms = request_.block_ms.value_or(cost_.kernels_ms);
    if (!(cost_.total_ms > cost_.attention_backward_ms && cost_.attention_backward_ms > 0)) {
      reject("the block must take longer than its attention backward, and that must take time");
    }
    return std::move(cost_);
  }

 private:
  void find_attention() {
    const auto entries = rates_at(rates_, model_, request_.attention);
    if (entries.empty()) reject_attention(request_.machine, model_, request_.attention);
    cost_.attention = entries.front().name;
    for (const AttentionRate& entry : entries) {
      const auto seq = static_cast<double>(entry.seq);
      forward_.push_back({seq, entry.forward_tflops});
      backward_.push_back({seq, entry.backward_tflops});
    }
  }

  void add(Kernel kernel) {
    TimedKernel timed{.kernel = std::move(kernel)};
    time(timed);
    cost_.kernels_ms += timed.ms;
    if (timed.kernel.work == Work::attention && timed.kernel.pass == Pass::backward) {
      cost_.attention_backward_ms = timed.ms;
    }
    cost_.kernels.push_back(std::move(timed));
  }

  void time(TimedKernel& timed) {
    const Kernel& kernel = timed.kernel;
    // 1 TFLOP/s is 1e9 FLOPs a ms, 1 TB/s 1e9 bytes.
    const double gflops = 1e-9 * static_cast<double>(kernel.flops);
    const auto bytes = static_cast<double>(kernel.bytes);
    const double copied = 1e-9 * bytes / rate_at(rates_.copy, bytes);
    if (kernel.work == Work::elementwise) {
      if (request_.norms) timed.operations = operations_of(shard_, kernel, *request_.norms);
      timed.ms = request_.norms ? operations_ms(timed.operations) : cost_.kappa * copied;
      timed.bound_by = Bound::memory;
      elementwise_ms_ += timed.ms;
      copied_ms_ += copied;
    } else if (kernel.work == Work::gemm) {
      const double computed = gflops / rates_.gemm_tflops;
      const double t0 = 1e-6 * static_cast<double>(rates_.gemm_t0_ns * kernel.launches);
      timed.ms = t0 + std::max(computed, copied);
      timed.bound_by = copied > computed ? Bound::memory : Bound::compute;
    } else {
      const bool forward = kernel.pass == Pass::forward;
      const auto& given = forward ? request_.attention_forward_ms : request_.attention_backward_ms;
      timed.bound_by = given ? Bound::given : Bound::compute;
      timed.ms =
          given ? *given
                : gflops / rate_at(forward ? forward_ : backward_, static_cast<double>(model_.seq));
    }
  }

  [[nodiscard]] double operations_ms(const std::vector<Operation>& operations) const {
    double ms = 0;
    for (const Operation& operation : operations) {
      const auto bytes = static_cast<double>(operation.bytes);
      // 1 element a ns is 1e6 elements a ms.
      const double once =
          operation.access == Access::streamed
              ? 1e-9 * bytes / rate_at(rates_.copy, bytes)
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

Replacement replace(double total_ms, double attention_backward_ms, double replaced_ms) {
  STAGGER_EXPECTS(attention_backward_ms > 0 && total_ms > attention_backward_ms && replaced_ms > 0);
  const double speedup = attention_backward_ms / replaced_ms;
  const double fraction = attention_backward_ms / total_ms;
  return {.attention_backward_ms = replaced_ms,
          .total_ms = total_ms - attention_backward_ms + replaced_ms,
          .kernel_speedup = speedup,
          .block_speedup = 1 / (1 - fraction * (1 - 1 / speedup))};
}

double most_speedup(double fraction) {
  return 1 / (1 - fraction);
}

}  // namespace stagger::block
