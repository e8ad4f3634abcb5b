#include "workbench/block/measured_block.hpp"

#include "core/limits.hpp"

#include <algorithm>

namespace stagger::block {
namespace {

constexpr double kLeastMs = 1e-6;
constexpr double kMostMs = 1e7;
constexpr double kMostTransfer = 1e18;
constexpr double kMostCopyTbs = 1e9;

double read_ms(const JsonValue& value) {
  return value.number(kLeastMs, kMostMs);
}

/// Profiles have their own names of torch's attention.
std::string attention_name(const std::string& row) {
  if (row == "torch-flash-det") return "flash-deterministic";
  if (row == "torch-flash") return "flash";
  return row;
}

std::map<std::pair<std::string, Pass>, double> read_within(const JsonValue& regions) {
  std::map<std::pair<std::string, Pass>, double> within;
  for (std::size_t index = 0; index < regions.size(); ++index) {
    const JsonValue region = regions.item(index);
    const auto pass = static_cast<Pass>(region.at("pass").word("pass", kPassNames));
    within[{region.at("name").string(), pass}] = region.at("ms").number(0, kMostMs);
  }
  return within;
}

MeasuredBlock read_row(const JsonValue& row, const Transformer& model, Ops ops) {
  MeasuredBlock block{.model = model,
                      .ops = ops,
                      .attention = attention_name(row.at("attention").string()),
                      .total_ms = read_ms(row.at("steady").at("ms"))};
  if (row.has("regions")) block.within = read_within(row.at("regions"));
  if (row.has("kinds") && !row.at("kinds").is_null()) {
    block.elementwise_ms = read_ms(row.at("kinds").at("other"));
  }
  if (row.has("alone")) block.rested_ms = read_ms(row.at("alone").at("spaced").at("ms"));
  return block;
}

Transformer read_model(const JsonValue& entry) {
  const std::string name = entry.at("model").string();
  const char* text = find_builtin(builtin_models(), name);
  if (text == nullptr) entry.at("model").reject("no model is called " + name);
  return with(read_transformer(text, name), {.seq = entry.at("seq").integer(1, kMaxTokens),
                                             .batch = entry.at("batch").integer(1, kMaxTokens)});
}

std::vector<RateAt> read_copies(const JsonValue& value) {
  std::vector<RateAt> copy;
  for (std::size_t index = 0; index < value.size(); ++index) {
    const JsonValue item = value.item(index);
    if (item.size() != 2) item.reject("a rate by size is [bytes, TB/s]");
    copy.push_back({.size = item.item(0).number(1, kMostTransfer),
                    .rate = item.item(1).number(1 / kMostCopyTbs, kMostCopyTbs)});
    if (copy.size() > 1 && copy.back().size <= copy[copy.size() - 2].size) {
      item.reject("sizes must ascend");
    }
  }
  if (copy.empty()) value.reject("no rate is given");
  return copy;
}

}  // namespace

MeasuredBlocks read_measured_blocks(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source);
  const JsonValue& root = document.root();
  root.expect_schema("stagger.block-bench/1");
  constexpr std::int64_t kMostDriver = 1'000'000;
  const std::int64_t driver = root.at("driver").integer(0, kMostDriver);
  MeasuredBlocks found{
      .device = root.at("device").string(),
      .sms = static_cast<std::int32_t>(root.at("sms").integer(1, kMaxSms)),
      .driver = std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10),
      .date = root.at("date").string(),
      .load = root.has("load")
                  ? std::optional(static_cast<Load>(root.at("load").word("load", kLoadNames)))
                  : std::nullopt,
      .copy = read_copies(root.at("copy_tbs"))};
  const JsonValue cases = root.at("cases");
  for (std::size_t index = 0; index < cases.size(); ++index) {
    const JsonValue entry = cases.item(index);
    const Transformer model = read_model(entry);
    const auto ops = static_cast<Ops>(entry.at("ops").word("ops", kOpsNames));
    const JsonValue rows = entry.at("rows");
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const JsonValue measured = rows.item(row);
      if (measured.has("steady")) found.blocks.push_back(read_row(measured, model, ops));
    }
  }
  if (found.blocks.empty()) cases.reject("no block was timed");
  return found;
}

}  // namespace stagger::block
