#include "workbench/block/overlap_calibration.hpp"

#include "core/error.hpp"
#include "core/json_value.hpp"

#include <algorithm>

namespace stagger::block {
namespace {

constexpr double kLeast = 1e-9;
constexpr double kMostRate = 1e9;
constexpr std::int64_t kMostOnSm = std::int64_t{1} << 24;

Limiter read_limiter(const JsonValue& item) {
  item.expect_keys({"limiter", "tflops", "ps", "tbs", "row_ns"});
  constexpr std::pair<const char*, LimitUnit> kUnits[] = {
      {"tflops", LimitUnit::flops}, {"ps", LimitUnit::elements}, {"tbs", LimitUnit::bytes}};
  Limiter limiter{.name = item.at("limiter").string()};
  int given = 0;
  for (const auto& [key, unit] : kUnits) {
    if (!item.has(key)) continue;
    limiter.unit = unit;
    limiter.rate = item.at(key).number(kLeast, kMostRate);
    ++given;
  }
  if (given != 1) item.reject("one of tflops, ps and tbs says the rate");
  if (item.has("row_ns")) limiter.row_ns = item.at("row_ns").number(0, kMostRate);
  return limiter;
}

std::vector<Limiter> read_limiters(const JsonValue& items) {
  std::vector<Limiter> limiters;
  for (std::size_t index = 0; index < items.size(); ++index)
    limiters.push_back(read_limiter(items.item(index)));
  if (limiters.empty()) items.reject("no limiter is given");
  return limiters;
}

std::vector<RngRate> read_rng(const JsonValue& items) {
  std::vector<RngRate> rates;
  for (std::size_t index = 0; index < items.size(); ++index) {
    const JsonValue item = items.item(index);
    item.expect_keys({"rounds", "bits", "limiters"});
    RngRate rate{.rounds = item.at("rounds").integer(1, 64),
                 .limiters = read_limiters(item.at("limiters"))};
    if (item.has("bits")) rate.bits = item.at("bits").integer(1, 64);
    rates.push_back(std::move(rate));
  }
  return rates;
}

Exposed read_exposed(const JsonValue& value) {
  value.expect_keys({"exposed", "ps"});
  if (value.has("exposed") == value.has("ps")) value.reject("either exposed or ps is given");
  if (value.has("exposed")) return {.part = value.at("exposed").number(0, kMostRate)};
  return {.ps = value.at("ps").number(0, kMostRate)};
}

Slowdown read_slowdown(const JsonValue& value) {
  value.expect_keys({"gemm", "rng", "room", "dropping"});
  return {.gemm = value.at("gemm").number(1, kMostRate),
          .rng = value.at("rng").number(1, kMostRate),
          .room = value.at("room").number(1, kMostRate),
          .dropping = value.at("dropping").number(1, kMostRate)};
}

SmSize read_sm(const JsonValue& value) {
  value.expect_keys({"count", "registers", "shared_bytes"});
  return {.count = value.at("count").integer(1, kMostOnSm),
          .registers = value.at("registers").integer(1, kMostOnSm),
          .shared_bytes = value.at("shared_bytes").integer(1, kMostOnSm)};
}

CtaSize read_gemm(const JsonValue& value) {
  value.expect_keys({"name", "threads", "registers", "shared_bytes", "ctas_per_sm", "tflops"});
  return {.name = value.at("name").string(),
          .threads = value.at("threads").integer(1, 1024),
          .registers = value.at("registers").integer(1, 255),
          .shared_bytes = value.at("shared_bytes").integer(0, kMostOnSm),
          .ctas_per_sm = value.at("ctas_per_sm").integer(1, 64),
          .tflops = value.at("tflops").number(kLeast, kMostRate)};
}

CtaSize read_rng_kernel(const JsonValue& value) {
  value.expect_keys({"threads", "registers"});
  return {.name = "RNG",
          .threads = value.at("threads").integer(1, 1024),
          .registers = value.at("registers").integer(1, 255)};
}

}  // namespace

double Limiter::ms(const Amount& amount) const {
  const double of_rows = 1e-6 * amount.rows * row_ns;
  switch (unit) {
    case LimitUnit::flops:
      return of_rows + 1e-9 * amount.flops / rate;
    case LimitUnit::elements:
      return of_rows + 1e-9 * amount.elements * rate;
    case LimitUnit::bytes:
      break;
  }
  return of_rows + 1e-9 * amount.bytes / rate;
}

Limited limited(const std::vector<Limiter>& limiters, const Amount& amount) {
  STAGGER_EXPECTS(!limiters.empty());
  const auto longest = std::ranges::max_element(
      limiters, {}, [&](const Limiter& limiter) { return limiter.ms(amount); });
  return {longest->ms(amount), longest->name};
}

double Exposed::ms(double rng_ms, double elements) const {
  return ps ? 1e-9 * *ps * elements : part.value_or(0) * rng_ms;
}

Calibration read_calibration(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source);
  const JsonValue& root = document.root();
  root.expect_schema("stagger.overlap-calibration/1");
  root.expect_keys({"schema", "name", "device", "gemm", "attention", "attention_backward", "rng",
                    "fused", "slowdown", "sm", "rng_kernel", "gemms", "source"});
  const JsonValue fused = root.at("fused");
  fused.expect_keys({"forward", "backward"});
  Calibration calibration{.name = root.at("name").string(),
                          .device = root.at("device").string(),
                          .gemm = read_limiters(root.at("gemm")),
                          .attention = read_limiters(root.at("attention")),
                          .attention_backward = read_limiters(root.at("attention_backward")),
                          .rng = read_rng(root.at("rng")),
                          .forward = read_exposed(fused.at("forward")),
                          .backward = read_exposed(fused.at("backward")),
                          .slowdown = read_slowdown(root.at("slowdown")),
                          .sm = read_sm(root.at("sm")),
                          .source = root.at("source").string()};
  if (root.has("rng_kernel")) calibration.rng_kernel = read_rng_kernel(root.at("rng_kernel"));
  if (root.has("gemms")) {
    const JsonValue gemms = root.at("gemms");
    for (std::size_t index = 0; index < gemms.size(); ++index)
      calibration.gemms.push_back(read_gemm(gemms.item(index)));
  }
  return calibration;
}

const RngRate& rng_of(const Calibration& calibration, std::int64_t rounds, std::int64_t bits) {
  std::string known;
  for (const RngRate& rate : calibration.rng) {
    if (rate.rounds == rounds && rate.bits.value_or(bits) == bits) return rate;
    known += (known.empty() ? "" : ", ") + std::to_string(rate.rounds) + " rounds" +
             (rate.bits ? " with " + std::to_string(*rate.bits) + " bits" : "");
  }
  throw Error(ErrorKind::usage, "the calibration '" + calibration.name + "' has no Philox of " +
                                    std::to_string(rounds) + " rounds with " +
                                    std::to_string(bits) + " bits an element; it has " +
                                    (known.empty() ? "none" : known));
}

}  // namespace stagger::block
