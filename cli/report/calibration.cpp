#include "cli/report/calibration.hpp"

#include "core/files.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <utility>

namespace stagger::cli {
namespace {

using Value = std::pair<const char*, const MeasuredNs*>;

std::vector<Value> values_of(const KernelTimes& times) {
  std::vector<Value> values = {{"compute", &times.compute}};
  if (times.compute_partial) values.emplace_back("compute_partial", &*times.compute_partial);
  values.emplace_back("reduce", &times.reduce);
  values.emplace_back("latency", &times.latency);
  if (times.congestion) values.emplace_back("congestion", &*times.congestion);
  if (times.spread) values.emplace_back("spread", &*times.spread);
  if (times.dip) values.emplace_back("dip", &*times.dip);
  if (times.dip_loss) values.emplace_back("dip_loss", &*times.dip_loss);
  values.emplace_back("launch", &times.launch);
  values.emplace_back("epilogue", &times.epilogue);
  if (times.reduce_kv) values.emplace_back("reduce_kv", &*times.reduce_kv);
  if (times.next_lane) values.emplace_back("next_lane", &*times.next_lane);
  values.emplace_back("start", &times.start);
  if (times.passes_per_mi) values.emplace_back("passes_per_mi", &*times.passes_per_mi);
  return values;
}

std::string schema_text(const Machine& machine, const Json& runs) {
  return fmt::format(
      "{{\"schema\": \"stagger.calibration/1\", \"version\": \"{}\",\n\"machine\": "
      "{},\n\"runs\": {}}}\n",
      version(), write_machine_json(machine), runs.text());
}

}  // namespace

std::string calibration_text(const Machine& machine, const KernelTimes& times) {
  std::string text =
      fmt::format("device        {}, {} SMs, CUDA {}\nkernel        {}; {} model\n", machine.device,
                  machine.sms, machine.driver, describe(times.key), model_name(times.model));
  for (const auto& [name, measured] : values_of(times)) {
    text += fmt::format("{:<15}{:>7} ns  quartiles {} to {} of {}\n", name, measured->value,
                        measured->low, measured->high, measured->samples);
  }
  return text + fmt::format("fit           median error {:.2f} %, worst {:.2f} %, of {}\n",
                            1e-4 * static_cast<double>(times.fit.median_ppm),
                            1e-4 * static_cast<double>(times.fit.worst_ppm),
                            counted(times.fit.runs, "table"));
}

std::string memory_json(const Machine& machine, const std::vector<workbench::MemoryRun>& runs,
                        const std::vector<workbench::Residual>& residuals) {
  Machine alone = machine;
  alone.kernels.clear();
  Json rows = Json::array();
  for (std::size_t run = 0; run < runs.size(); ++run) {
    rows.push_back({{"problem", workbench::counted_problem_json(runs[run].table.problem)},
                    {"schedule", runs[run].table.name},
                    {"dq_tile_bytes", runs[run].timing.memory->tile.dq},
                    {"measured_ns", residuals[run].measured},
                    {"predicted_ns", residuals[run].predicted}});
  }
  return schema_text(alone, rows);
}

std::string memory_text(const Machine& machine) {
  const DeviceMemory& memory = *machine.memory;
  return fmt::format(
      "{} ({}): memory\n"
      "L2 cache   {:.1f} MB stay in it\n"
      "rate       {} bytes a ns from and to device memory\n"
      "streams    {} bytes a ns, for copies and other passes that add nothing\n"
      "addition   takes as much of the rate as moving {:.5g} times its bytes\n"
      "latency    {} ns of device memory beyond that of L2\n"
      "fit        {}: median error {:.1f} %, worst {:.1f} %\n",
      machine.name, machine.device, 1e-6 * static_cast<double>(memory.l2_bytes),
      memory.bytes_per_ns, memory.stream_bytes_per_ns,
      1e-3 * static_cast<double>(memory.add_permille), memory.latency_ns,
      counted(memory.fit.runs, "run"), 1e-4 * static_cast<double>(memory.fit.median_ppm),
      1e-4 * static_cast<double>(memory.fit.worst_ppm));
}

}  // namespace stagger::cli
