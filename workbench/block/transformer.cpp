#include "workbench/block/transformer.hpp"

#include "core/error.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"

namespace stagger::block {
namespace {

// Small enough for FLOPs of 2^26 tokens to be counted in 64 bits after one check (kernels.cpp).
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostHeads = std::int64_t{1} << 12;
constexpr std::int64_t kMostExperts = std::int64_t{1} << 12;

/// What does not fit together, empty if all does.
std::string misfit(const Transformer& model) {
  if (model.heads % model.heads_kv != 0) {
    return std::to_string(model.heads_kv) + " KV heads do not divide " +
           std::to_string(model.heads) + " heads";
  }
  if (model.experts_active > model.experts) return "more experts are active than there are";
  if (model.attention == Attention::sliding && model.window == 0) return "a window is missing";
  if (model.attention != Attention::sliding && model.window > 0) {
    return "a window of " + std::to_string(model.window) + " is given, and attention is " +
           kAttentionNames[static_cast<int>(model.attention)] + ", not sliding";
  }
  return "";
}

void read_experts(const JsonValue& experts, Transformer& model) {
  experts.expect_keys({"count", "active"});
  model.experts = experts.at("count").integer(1, kMostExperts);
  model.experts_active = experts.at("active").integer(1, kMostExperts);
}

}  // namespace

Transformer read_transformer(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source);
  const JsonValue& root = document.root();
  root.expect_schema("stagger.model/1");
  root.expect_keys({"schema", "name", "hidden", "heads", "heads_kv", "head_dim", "ffn",
                    "activation", "experts", "rope", "attention", "window", "seq", "batch",
                    "source", "uncertain"});
  Transformer model{
      .name = root.at("name").string(),
      .hidden = root.at("hidden").integer(1, kMostWidth),
      .heads = root.at("heads").integer(1, kMostHeads),
      .heads_kv = root.at("heads_kv").integer(1, kMostHeads),
      .head_dim = root.at("head_dim").integer(1, kMostHeads),
      .ffn = root.at("ffn").integer(1, kMostWidth),
      .activation =
          static_cast<Activation>(root.at("activation").word("activation", kActivationNames)),
      .rope = root.at("rope").boolean(),
      .attention = static_cast<Attention>(root.at("attention").word("attention", kAttentionNames)),
      .seq = root.has("seq") ? root.at("seq").integer(1, kMaxTokens) : 0,
      .batch = root.has("batch") ? root.at("batch").integer(1, kMaxTokens) : 1};
  if (root.has("experts")) read_experts(root.at("experts"), model);
  if (root.has("window")) model.window = root.at("window").integer(1, kMaxTokens);
  if (root.has("source")) model.source = root.at("source").string();
  if (root.has("uncertain")) model.uncertain = root.at("uncertain").string();
  const std::string wrong = misfit(model);
  if (!wrong.empty()) root.reject(wrong);
  return model;
}

Transformer with(Transformer model, const Overrides& overrides) {
  const auto set = [](const auto& given, auto& value) {
    if (given) value = *given;
  };
  set(overrides.ffn, model.ffn);
  set(overrides.heads_kv, model.heads_kv);
  set(overrides.seq, model.seq);
  set(overrides.batch, model.batch);
  if (overrides.window) {
    if (model.attention == Attention::full) {
      throw Error(ErrorKind::usage, model.name + ": its attention is full, and has no window");
    }
    model.window = *overrides.window;
    model.attention = model.window > 0 ? Attention::sliding : Attention::causal;
  }
  if (model.seq == 0) {
    throw Error(ErrorKind::usage, model.name + ": it says no sequence: give --seq TOKENS");
  }
  const std::string wrong = misfit(model);
  if (!wrong.empty()) throw Error(ErrorKind::usage, model.name + ": " + wrong);
  return model;
}

const char* find_builtin(std::span<const BuiltinFile> files, std::string_view name) {
  for (const BuiltinFile& file : files) {
    if (name == file.name) return file.text;
  }
  return nullptr;
}

std::int64_t active_parameters(const Transformer& model) {
  const std::int64_t inner = model.heads * model.head_dim;
  const std::int64_t gates = model.activation == Activation::swiglu ? 3 : 2;
  return model.hidden * (inner + 2 * model.heads_kv * model.head_dim) + inner * model.hidden +
         model.experts_active * gates * model.hidden * model.ffn;
}

std::string describe(const Transformer& model) {
  std::string text = "hidden " + std::to_string(model.hidden) + ", " + counted(model.heads, "head");
  if (model.heads_kv != model.heads) text += " (" + std::to_string(model.heads_kv) + " KV)";
  text += " of " + std::to_string(model.head_dim) + ", FFN ";
  if (model.experts > 1) {
    text += std::to_string(model.experts_active) + " of " + std::to_string(model.experts) + " x ";
  }
  text += std::to_string(model.ffn) + " " + kActivationNames[static_cast<int>(model.activation)] +
          ", " + kAttentionNames[static_cast<int>(model.attention)];
  if (model.attention == Attention::sliding) text += " " + std::to_string(model.window);
  return text;
}

}  // namespace stagger::block
