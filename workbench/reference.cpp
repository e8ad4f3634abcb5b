#include "workbench/reference.hpp"

#include "gpu/cuda/reference.hpp"

#include <utility>

namespace stagger::workbench {
namespace {

/// Pairs of tokens times head_dim that the host's reference does in some seconds.
constexpr double kMaxHostReference = 0x1p28;

}  // namespace

bool uses_device_reference(std::optional<Reference> reference, bool on_gpu,
                           const gpu::AttentionShape& shape) {
  if (reference) return reference == Reference::device;
  const double work = static_cast<double>(shape.heads) * static_cast<double>(shape.seq_q) *
                      static_cast<double>(shape.seq_kv) * shape.head_dim;
  return on_gpu && work > kMaxHostReference;
}

JudgedProblem judged_problem(const Problem& problem, const gpu::AttentionShape& shape,
                             std::uint64_t seed, std::optional<Reference> reference, bool by_device,
                             const std::function<void(const char*, double)>& progress,
                             const std::optional<gpu::DropoutOptions>& dropout) {
  gpu::Inputs inputs = gpu::random_inputs(shape, seed);
  std::optional<gpu::Dropout> drops;
  if (dropout) drops = gpu::make_dropout(*dropout, shape.dropout_layout());
  if (reference == Reference::none) {
    return {gpu::unjudged_attention(problem, shape, std::move(inputs), std::move(drops)),
            std::nullopt};
  }
  const auto tell = [&](double fraction) {
    if (progress) progress("computing what the gradients should be", fraction);
  };
  tell(0.1);
  gpu::Attention attention = (by_device ? gpu::make_attention_on_cuda : gpu::make_attention)(
      problem, shape, std::move(inputs), std::move(drops));
  tell(0.4);
  gpu::ReferenceGradients exact =
      (by_device ? gpu::reference_gradients_on_cuda : gpu::reference_gradients)(attention);
  return {std::move(attention), std::move(exact)};
}

}  // namespace stagger::workbench
