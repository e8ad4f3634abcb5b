#include "core/files.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <limits>

namespace stagger {
namespace {

constexpr std::int64_t kLongestPhaseNs = std::int64_t{1} << 40;  ///< about 18 minutes
constexpr std::int64_t kAnyCount = std::numeric_limits<std::int64_t>::max();

MeasuredNs read_measured(const JsonValue& value) {
  value.expect_keys({"value", "quartiles", "samples"});
  MeasuredNs measured{.value = value.at("value").integer(0, kLongestPhaseNs),
                      .samples = value.at("samples").integer(0, kAnyCount)};
  const JsonValue quartiles = value.at("quartiles");
  if (quartiles.size() != 2) quartiles.reject("quartiles are [lower, upper]");
  measured.low = quartiles.item(0).integer(0, kLongestPhaseNs);
  measured.high = quartiles.item(1).integer(measured.low, kLongestPhaseNs);
  return measured;
}

KernelKey read_key(const JsonValue& entry) {
  KernelKey key{.kernel = entry.at("kernel").string()};
  if (!entry.has("dtype")) return key;
  key.dtype = entry.at("dtype").string();
  key.head_dim = entry.at("head_dim").integer(1, kMaxTokens);
  key.tile = {.q = entry.at("tile_q").integer(1, kMaxTokens),
              .kv = entry.at("tile_kv").integer(1, kMaxTokens)};
  return key;
}

FitErrors read_fit(const JsonValue& fit) {
  fit.expect_keys({"runs", "median_ppm", "worst_ppm"});
  return {.median_ppm = fit.at("median_ppm").integer(0, kAnyCount),
          .worst_ppm = fit.at("worst_ppm").integer(0, kAnyCount),
          .runs = fit.at("runs").integer(0, kAnyCount)};
}

DeviceMemory read_memory(const JsonValue& value) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  value.expect_keys({"l2_bytes", "bytes_per_ns", "stream_bytes_per_ns", "add_permille",
                     "latency_ns", "fit", "date", "command"});
  DeviceMemory memory{.l2_bytes = value.at("l2_bytes").integer(1, kMostBytes),
                      .bytes_per_ns = value.at("bytes_per_ns").integer(1, kMostBytes)};
  if (value.has("stream_bytes_per_ns")) {
    memory.stream_bytes_per_ns = value.at("stream_bytes_per_ns").integer(0, kMostBytes);
  }
  if (value.has("add_permille")) {
    memory.add_permille = value.at("add_permille").integer(0, kMostAddPermille);
  }
  if (value.has("latency_ns")) {
    memory.latency_ns = value.at("latency_ns").integer(0, kLongestPhaseNs);
  }
  if (value.has("fit")) memory.fit = read_fit(value.at("fit"));
  if (value.has("date")) memory.date = value.at("date").string();
  if (value.has("command")) memory.command = value.at("command").string();
  return memory;
}

std::string member(const char* key, const std::string& value) {
  return "\"" + std::string(key) + "\": " + value;
}

std::string write_measured(const char* key, const MeasuredNs& measured) {
  return "     " + member(key, "{") + member("value", std::to_string(measured.value)) + ", " +
         member("quartiles",
                "[" + std::to_string(measured.low) + ", " + std::to_string(measured.high) + "]") +
         ", " + member("samples", std::to_string(measured.samples)) + "}";
}

std::string write_fit(const FitErrors& fit) {
  return member("fit", "{") + member("runs", std::to_string(fit.runs)) + ", " +
         member("median_ppm", std::to_string(fit.median_ppm)) + ", " +
         member("worst_ppm", std::to_string(fit.worst_ppm)) + "}";
}

std::string write_memory(const DeviceMemory& memory) {
  return " " + member("memory", "{") + member("l2_bytes", std::to_string(memory.l2_bytes)) + ", " +
         member("bytes_per_ns", std::to_string(memory.bytes_per_ns)) + ", " +
         member("stream_bytes_per_ns", std::to_string(memory.stream_bytes_per_ns)) + ", " +
         member("add_permille", std::to_string(memory.add_permille)) + ", " +
         member("latency_ns", std::to_string(memory.latency_ns)) + ",\n   " +
         write_fit(memory.fit) + ",\n   " + member("date", json_quote(memory.date)) + ",\n   " +
         member("command", json_quote(memory.command)) + "},\n";
}

std::string write_blocks(const std::vector<BlockRates>& blocks) {
  return blocks.empty() ? "" : " " + member("block", write_block_rates(blocks)) + ",\n";
}

}  // namespace

KernelTimes read_kernel_times(const JsonValue& entry) {
  entry.expect_keys({"kernel", "dtype", "head_dim", "tile_q", "tile_kv", "model", "release",
                     "steps", "cut_partial", "ns", "fit", "date", "command"});
  const JsonValue ns = entry.at("ns");
  ns.expect_keys({"compute", "compute_partial", "reduce", "latency", "congestion", "spread", "dip",
                  "dip_loss", "launch", "epilogue", "reduce_kv", "next_lane", "start",
                  "passes_per_mi"});
  KernelTimes times{.key = read_key(entry)};
  times.model = static_cast<Model>(entry.at("model").word("model", kModelNames));
  times.release = static_cast<Release>(entry.at("release").word("release", kReleaseNames));
  if (entry.has("steps")) {
    times.steps = static_cast<std::int32_t>(entry.at("steps").integer(1, kMaxSteps));
  }
  if (entry.has("cut_partial")) times.cut_partial = entry.at("cut_partial").boolean();
  times.compute = read_measured(ns.at("compute"));
  if (ns.has("compute_partial")) times.compute_partial = read_measured(ns.at("compute_partial"));
  times.reduce = read_measured(ns.at("reduce"));
  times.latency = read_measured(ns.at("latency"));
  if (ns.has("congestion")) times.congestion = read_measured(ns.at("congestion"));
  if (ns.has("spread")) times.spread = read_measured(ns.at("spread"));
  if (ns.has("dip")) times.dip = read_measured(ns.at("dip"));
  if (ns.has("dip_loss")) times.dip_loss = read_measured(ns.at("dip_loss"));
  if (times.dip_loss && times.dip_loss->value > times.dip.value_or(MeasuredNs{}).value / 2) {
    ns.at("dip_loss").reject("at most half of `dip` can be lost");
  }
  times.launch = read_measured(ns.at("launch"));
  times.epilogue = read_measured(ns.at("epilogue"));
  if (ns.has("reduce_kv")) times.reduce_kv = read_measured(ns.at("reduce_kv"));
  if (ns.has("next_lane")) times.next_lane = read_measured(ns.at("next_lane"));
  times.start = read_measured(ns.at("start"));
  if (ns.has("passes_per_mi")) times.passes_per_mi = read_measured(ns.at("passes_per_mi"));
  if (entry.has("fit")) times.fit = read_fit(entry.at("fit"));
  if (entry.has("date")) times.date = entry.at("date").string();
  if (entry.has("command")) times.command = entry.at("command").string();
  return times;
}

std::string write_kernel_times(const KernelTimes& times) {
  std::string text = "  {" + member("kernel", json_quote(times.key.kernel));
  if (!times.key.dtype.empty()) {
    text += ", " + member("dtype", json_quote(times.key.dtype)) + ", " +
            member("head_dim", std::to_string(times.key.head_dim)) + ", " +
            member("tile_q", std::to_string(times.key.tile.q)) + ", " +
            member("tile_kv", std::to_string(times.key.tile.kv));
  }
  text += ",\n   " + member("model", json_quote(model_name(times.model))) + ", " +
          member("release", json_quote(release_name(times.release))) +
          (times.steps > 1 ? ", " + member("steps", std::to_string(times.steps)) : "") +
          (times.cut_partial ? ", " + member("cut_partial", "true") : "") + ",\n   " +
          member("ns", "{\n") + write_measured("compute", times.compute);
  const auto add = [&](const char* key, const MeasuredNs& measured) {
    text += ",\n" + write_measured(key, measured);
  };
  if (times.compute_partial) add("compute_partial", *times.compute_partial);
  add("reduce", times.reduce);
  add("latency", times.latency);
  if (times.congestion) add("congestion", *times.congestion);
  if (times.spread) add("spread", *times.spread);
  if (times.dip) add("dip", *times.dip);
  if (times.dip_loss) add("dip_loss", *times.dip_loss);
  add("launch", times.launch);
  add("epilogue", times.epilogue);
  if (times.reduce_kv) add("reduce_kv", *times.reduce_kv);
  if (times.next_lane) add("next_lane", *times.next_lane);
  add("start", times.start);
  if (times.passes_per_mi) add("passes_per_mi", *times.passes_per_mi);
  return text + "},\n   " + write_fit(times.fit) + ",\n   " +
         member("date", json_quote(times.date)) + ",\n   " +
         member("command", json_quote(times.command)) + "}";
}

Machine read_machine_json(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source);
  const JsonValue& root = document.root();
  root.expect_schema("stagger.machine/1");
  root.expect_keys({"schema", "name", "device", "driver", "sms", "memory", "block", "kernels"});
  Machine machine{.name = root.at("name").string(),
                  .device = root.at("device").string(),
                  .driver = root.at("driver").string(),
                  .sms = static_cast<std::int32_t>(root.at("sms").integer(1, kMaxSms))};
  if (root.has("memory")) machine.memory = read_memory(root.at("memory"));
  if (root.has("block")) machine.blocks = read_block_rates(root.at("block"));
  const JsonValue kernels = root.at("kernels");
  for (std::size_t index = 0; index < kernels.size(); ++index) {
    const JsonValue entry = kernels.item(index);
    KernelTimes times = read_kernel_times(entry);
    const bool known =
        std::any_of(machine.kernels.begin(), machine.kernels.end(),
                    [&](const KernelTimes& other) { return other.key == times.key; });
    if (known) entry.reject("the times of " + describe(times.key) + " are given twice");
    machine.kernels.push_back(std::move(times));
  }
  return machine;
}

std::string write_machine_json(const Machine& machine) {
  std::string text = "{" + member("schema", "\"stagger.machine/1\"") + ", " +
                     member("name", json_quote(machine.name)) + ",\n " +
                     member("device", json_quote(machine.device)) + ", " +
                     member("driver", json_quote(machine.driver)) + ", " +
                     member("sms", std::to_string(machine.sms)) + ",\n" +
                     (machine.memory ? write_memory(*machine.memory) : "") +
                     write_blocks(machine.blocks) + " " + member("kernels", "[");
  const char* separator = "\n";
  for (const KernelTimes& times : machine.kernels) {
    text += separator + write_kernel_times(times);
    separator = ",\n";
  }
  return text + "]}\n";
}

}  // namespace stagger
