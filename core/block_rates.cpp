#include "core/block_rates.hpp"

#include "core/error.hpp"
#include "core/json.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stagger {
namespace {

constexpr double kLeastRate = 1e-6;
constexpr double kMostRate = 1e9;
constexpr double kMostTransfer = 1e18;
constexpr std::int64_t kMostPermille = 1'000'000;
constexpr std::int64_t kMostTflops = 1'000'000;
constexpr std::int64_t kMostHeads = std::int64_t{1} << 40;
constexpr std::int64_t kMostPpm = 1'000'000;
constexpr std::int64_t kLongestKernelNs = std::int64_t{1} << 40;

double read_rate(const JsonValue& value) {
  return value.number(kLeastRate, kMostRate);
}

/// `4.0`, or `[[64000000, 3.07], …]` by ascending bytes.
std::vector<RateAt> read_copy(const JsonValue& value) {
  if (!value.is_array()) return {{.size = 1, .rate = read_rate(value)}};
  std::vector<RateAt> points;
  if (value.size() == 0) value.reject("no rate is given");
  for (std::size_t index = 0; index < value.size(); ++index) {
    const JsonValue item = value.item(index);
    if (item.size() != 2) item.reject("a rate by size is [bytes, TB/s]");
    const RateAt point{.size = item.item(0).number(1, kMostTransfer),
                       .rate = read_rate(item.item(1))};
    if (!points.empty() && point.size <= points.back().size) {
      item.reject("sizes must ascend");
    }
    points.push_back(point);
  }
  return points;
}

/// `4400`, or `[{"ops": "eager", "layers": "swiglu", "permille": 4400}, …]`.
std::vector<Kappa> read_kappas(const JsonValue& value) {
  if (!value.is_array()) return {{.permille = value.integer(1, kMostPermille)}};
  std::vector<Kappa> kappas;
  for (std::size_t index = 0; index < value.size(); ++index) {
    const JsonValue item = value.item(index);
    item.expect_keys({"ops", "layers", "permille"});
    Kappa kappa{.permille = item.at("permille").integer(1, kMostPermille)};
    if (item.has("ops")) kappa.ops = static_cast<Ops>(item.at("ops").word("ops", kOpsNames));
    if (item.has("layers")) {
      kappa.layers = kLayersNames[item.at("layers").word("layers", kLayersNames)];
    }
    kappas.push_back(std::move(kappa));
  }
  return kappas;
}

constexpr std::pair<const char*, std::optional<double> OperationRates::*> kOperationRates[] = {
    {"broadcast_gelems", &OperationRates::broadcast},
    {"strided_gelems", &OperationRates::strided},
    {"fused_gelems", &OperationRates::fused}};

OperationRates read_operations(const JsonValue& value) {
  value.expect_keys({"broadcast_gelems", "strided_gelems", "fused_gelems"});
  OperationRates rates;
  for (const auto& [key, rate] : kOperationRates)
    if (value.has(key)) rates.*rate = read_rate(value.at(key));
  return rates;
}

Throttle read_throttle(const JsonValue& value) {
  value.expect_keys({"above_tflops", "ppm", "rested_permille"});
  Throttle throttle{.above_tflops = value.at("above_tflops").integer(0, kMostTflops),
                    .ppm = value.at("ppm").integer(0, kMostPpm)};
  if (value.has("rested_permille")) {
    throttle.rested_permille =
        value.at("rested_permille").integer(Throttle::kLeastRestedPermille, 1000);
  }
  return throttle;
}

AttentionRate read_attention(const JsonValue& item) {
  item.expect_keys(
      {"name", "head_dim", "causal", "seq", "heads", "forward_tflops", "backward_tflops"});
  AttentionRate rate{.name = item.at("name").string(),
                     .head_dim = item.at("head_dim").integer(1, kMaxTokens),
                     .causal = item.at("causal").boolean(),
                     .seq = item.at("seq").integer(1, kMaxTokens),
                     .forward_tflops = read_rate(item.at("forward_tflops")),
                     .backward_tflops = read_rate(item.at("backward_tflops"))};
  if (item.has("heads")) rate.heads = item.at("heads").integer(1, kMostHeads);
  return rate;
}

/// A whole number without a point.
Json number_json(double number) {
  constexpr double kExact = 1e15;
  if (number == std::floor(number) && number < kExact) return static_cast<std::int64_t>(number);
  return number;
}

Json copy_json(const std::vector<RateAt>& points) {
  if (points.size() == 1) return number_json(points.front().rate);
  Json json = Json::array();
  for (const RateAt& point : points) {
    Json pair = Json::array();
    pair.push_back(number_json(point.size));
    pair.push_back(number_json(point.rate));
    json.push_back(std::move(pair));
  }
  return json;
}

Json kappas_json(const std::vector<Kappa>& kappas) {
  Json json = Json::array();
  for (const Kappa& kappa : kappas) {
    Json item = Json::object();
    if (kappa.ops) item["ops"] = name(*kappa.ops);
    if (kappa.layers) item["layers"] = *kappa.layers;
    item["permille"] = kappa.permille;
    json.push_back(std::move(item));
  }
  return json;
}

Json operations_json(const OperationRates& rates) {
  Json json = Json::object();
  for (const auto& [key, rate] : kOperationRates)
    if (rates.*rate) json[key] = number_json(*(rates.*rate));
  return json;
}

BlockRates read_rates(const JsonValue& value) {
  value.expect_keys({"load", "gemm_tflops", "gemm_t0_ns", "gemm_exposed_permille", "copy_tbs",
                     "kappa_permille", "operations", "throttle", "attention", "source", "date"});
  BlockRates rates{.gemm_tflops = read_rate(value.at("gemm_tflops")),
                   .gemm_t0_ns = value.at("gemm_t0_ns").integer(0, kLongestKernelNs),
                   .copy = read_copy(value.at("copy_tbs")),
                   .kappas = read_kappas(value.at("kappa_permille"))};
  if (value.has("load")) rates.load = static_cast<Load>(value.at("load").word("load", kLoadNames));
  if (value.has("gemm_exposed_permille")) {
    rates.gemm_exposed_permille = value.at("gemm_exposed_permille").integer(0, kMostPermille);
  }
  if (value.has("operations")) rates.operations = read_operations(value.at("operations"));
  if (value.has("throttle")) rates.throttle = read_throttle(value.at("throttle"));
  if (value.has("attention")) {
    const JsonValue entries = value.at("attention");
    for (std::size_t index = 0; index < entries.size(); ++index) {
      const JsonValue item = entries.item(index);
      AttentionRate rate = read_attention(item);
      const bool known = std::ranges::any_of(
          rates.attention, [&](const AttentionRate& other) { return rate.same_shape(other); });
      if (known) item.reject("the rates of " + rate.name + " at this shape are given twice");
      rates.attention.push_back(std::move(rate));
    }
  }
  if (value.has("source")) rates.source = value.at("source").string();
  if (value.has("date")) rates.date = value.at("date").string();
  return rates;
}

std::string write_rates(const BlockRates& rates) {
  std::string text = "{";
  if (rates.load) text += "\"load\": " + json_quote(name(*rates.load)) + ", ";
  text += "\"gemm_tflops\": " + number_json(rates.gemm_tflops).line() +
          ", \"gemm_t0_ns\": " + Json(rates.gemm_t0_ns).line();
  if (rates.gemm_exposed_permille > 0) {
    text += ", \"gemm_exposed_permille\": " + Json(rates.gemm_exposed_permille).line();
  }
  text += ",\n   \"copy_tbs\": " + copy_json(rates.copy).line() +
          ",\n   \"kappa_permille\": " + kappas_json(rates.kappas).line();
  if (rates.operations != OperationRates{}) {
    text += ",\n   \"operations\": " + operations_json(rates.operations).line();
  }
  if (rates.throttle != Throttle{}) {
    text += ",\n   \"throttle\": {\"above_tflops\": " + Json(rates.throttle.above_tflops).line() +
            ", \"ppm\": " + Json(rates.throttle.ppm).line();
    if (rates.throttle.rested_permille != 1000) {
      text += ", \"rested_permille\": " + Json(rates.throttle.rested_permille).line();
    }
    text += "}";
  }
  const char* separator = ",\n   \"attention\": [\n    ";
  for (const AttentionRate& rate : rates.attention) {
    Json json = {{"name", rate.name},
                 {"head_dim", rate.head_dim},
                 {"causal", rate.causal},
                 {"seq", rate.seq}};
    if (rate.heads) json["heads"] = *rate.heads;
    json["forward_tflops"] = number_json(rate.forward_tflops);
    json["backward_tflops"] = number_json(rate.backward_tflops);
    text += separator + json.line();
    separator = ",\n    ";
  }
  if (!rates.attention.empty()) text += "]";
  return text + ",\n   \"source\": " + json_quote(rates.source) +
         ",\n   \"date\": " + json_quote(rates.date) + "}";
}

}  // namespace

double rate_at(std::span<const RateAt> points, double size) {
  STAGGER_EXPECTS(!points.empty());
  const auto above =
      std::ranges::find_if(points, [size](const RateAt& point) { return point.size >= size; });
  if (above == points.begin()) return points.front().rate;
  if (above == points.end()) return points.back().rate;
  const RateAt& low = *(above - 1);
  const double part = std::log(size / low.size) / std::log(above->size / low.size);
  return low.rate + part * (above->rate - low.rate);
}

double BlockRates::copied_ms(std::int64_t bytes) const {
  const auto moved = static_cast<double>(bytes);
  return 1e-9 * moved / rate_at(copy, moved);  // 1 TB/s is 1e9 bytes a ms
}

std::vector<BlockRates> read_block_rates(const JsonValue& value) {
  if (!value.is_array()) return {read_rates(value)};
  std::vector<BlockRates> blocks;
  if (value.size() == 0) value.reject("no rates are given");
  for (std::size_t index = 0; index < value.size(); ++index) {
    const JsonValue item = value.item(index);
    BlockRates rates = read_rates(item);
    if (std::ranges::count(blocks, rates.load, &BlockRates::load) > 0) {
      item.reject(rates.load
                      ? "the rates of " + std::string(name(*rates.load)) + " load are given twice"
                      : "two do not say their load");
    }
    blocks.push_back(std::move(rates));
  }
  return blocks;
}

std::string write_block_rates(std::span<const BlockRates> blocks) {
  STAGGER_EXPECTS(!blocks.empty());
  if (blocks.size() == 1) return write_rates(blocks.front());
  std::string text;
  for (const BlockRates& rates : blocks)
    text += (text.empty() ? "[" : ",\n  ") + write_rates(rates);
  return text + "]";
}

}  // namespace stagger
