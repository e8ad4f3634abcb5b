#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::block {

enum class Activation { swiglu, gelu };
inline constexpr const char* kActivationNames[] = {"swiglu", "gelu"};

enum class Attention { full, causal, sliding };
inline constexpr const char* kAttentionNames[] = {"full", "causal", "sliding"};

/// The dimensions of one transformer block.
struct Transformer {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t heads_kv = 0;  ///< divides heads
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;  ///< of one expert
  Activation activation = Activation::swiglu;
  std::int64_t experts = 1;         ///< 1: a dense FFN
  std::int64_t experts_active = 1;  ///< experts that a token goes through
  bool rope = true;
  Attention attention = Attention::causal;
  std::int64_t window = 0;  ///< sliding: keys that a query sees, itself among them
  std::int64_t seq = 0;     ///< tokens of a sequence, unless others are asked for; 0: must be
  std::int64_t batch = 1;
  std::string source = {};     ///< where the dimensions are from
  std::string uncertain = {};  ///< what of them is, or what is left out; empty: nothing

  friend bool operator==(const Transformer&, const Transformer&) = default;
};

/// What is asked of a model in the place of its own.
struct Overrides {
  std::optional<std::int64_t> ffn = std::nullopt;
  std::optional<std::int64_t> heads_kv = std::nullopt;
  std::optional<std::int64_t> window = std::nullopt;  ///< of no full attention; 0: causal
  std::optional<std::int64_t> seq = std::nullopt;
  std::optional<std::int64_t> batch = std::nullopt;
};

/// Reads schema `stagger.model/1`. Throws Error{invalid_input} with the path of what is wrong.
[[nodiscard]] Transformer read_transformer(std::string_view text, const std::string& source);

/// Returns the model as asked for. Throws Error{usage} if the parts do not fit.
[[nodiscard]] Transformer with(Transformer model, const Overrides& overrides);

/// A file of configs/ that is part of the library.
struct BuiltinFile {
  const char* name;  ///< without folder and extension
  const char* text;
};

/// Returns the files of configs/models by name.
[[nodiscard]] std::span<const BuiltinFile> builtin_models();
/// Returns the files of configs/overlap by name.
[[nodiscard]] std::span<const BuiltinFile> builtin_calibrations();

/// Returns the text of a built-in file, nullptr if none is called so.
[[nodiscard]] const char* find_builtin(std::span<const BuiltinFile> files, std::string_view name);

/// Returns the parameters that a token's GEMMs multiply it with: of the projections, and of the
/// experts that are active.
[[nodiscard]] std::int64_t active_parameters(const Transformer& model);

/// `hidden 4096, 32 heads (8 KV) of 128, FFN 14336 swiglu, causal`.
[[nodiscard]] std::string describe(const Transformer& model);

}  // namespace stagger::block
