#include "workbench/calibration/evidence_file.hpp"

#include "core/files.hpp"
#include "core/order_digest.hpp"
#include "core/version.hpp"
#include "workbench/calibration/set.hpp"
#include "workbench/json.hpp"
#include "workbench/kernels.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr const char* kSchema = "stagger.calibration/1";
/// SMs of a device whose tables are made again; no GPU has as many.
constexpr std::int32_t kMostSms = 1'024;
constexpr Ticks kLongestNs = Ticks{1} << 40;  ///< about 18 minutes

std::string orders_of(const Table& table) {
  return hexadecimal(head_orders(table).digest);
}

Json run_json(const TimedTable& timed, const Residual& residual) {
  return {{"problem", counted_problem_json(timed.table.problem)},
          {"schedule", timed.table.name},
          {"orders", orders_of(timed.table)},
          {"measured_ns", residual.measured},
          {"predicted_ns", residual.predicted},
          {"whole_ns", timed.whole},
          {"passes_ns", timed.passes},
          {"tells", timed.tells}};
}

Json parts_json(const Evidence& evidence) {
  const MeasuredNs& parts = evidence.parts;
  return {{"value", parts.value},
          {"quartiles", std::vector<Ticks>{parts.low, parts.high}},
          {"samples", parts.samples},
          {"load", evidence.parts_load}};
}

void read_parts(const JsonValue& value, Evidence& evidence) {
  value.expect_keys({"value", "quartiles", "samples", "load"});
  MeasuredNs& parts = evidence.parts;
  parts.value = value.at("value").integer(0, kLongestNs);
  const JsonValue quartiles = value.at("quartiles");
  if (quartiles.size() != 2) quartiles.reject("quartiles are [lower, upper]");
  parts.low = quartiles.item(0).integer(0, kLongestNs);
  parts.high = quartiles.item(1).integer(parts.low, kLongestNs);
  parts.samples = value.at("samples").integer(0, std::numeric_limits<std::int64_t>::max());
  evidence.parts_load = value.at("load").integer(0, 1'000);
}

/// The tables whose makespans are predicted, in the order in which they are measured.
std::vector<Table> counted_tables(const KernelKey& key, std::int32_t sms) {
  std::vector<Table> tables = calibration_set(key.tile, sms);
  if (kernel_of(key.kernel).passes) {
    std::ranges::move(large_calibration_set(key.tile, sms, key.head_dim),
                      std::back_inserter(tables));
  }
  return tables;
}

void read_tables(const JsonValue& runs, std::int32_t sms, Evidence& evidence) {
  const KernelKey& key = evidence.shown.key;
  std::vector<Table> tables = counted_tables(key, sms);
  if (runs.size() != tables.size()) {
    runs.reject("there are " + std::to_string(runs.size()) + " runs, and " + describe(key) +
                " is calibrated on " + std::to_string(tables.size()) + " tables");
  }
  for (std::size_t index = 0; index < tables.size(); ++index) {
    const JsonValue run = runs.item(index);
    run.expect_keys({"problem", "schedule", "orders", "measured_ns", "predicted_ns", "whole_ns",
                     "passes_ns", "tells"});
    Table& table = tables[index];
    if (run.at("schedule").string() != table.name ||
        run.at("orders").string() != orders_of(table)) {
      run.reject("is of another table than `" + table.name + "` on " + describe(table.problem) +
                 ", which is the one that is measured here by now");
    }
    TimedTable timed;
    timed.span = run.at("measured_ns").integer(1, kLongestNs);
    timed.whole = run.at("whole_ns").integer(1, kLongestNs);
    timed.passes = run.at("passes_ns").integer(0, kLongestNs);
    timed.q_elements = std::int64_t{table.problem.heads} * table.problem.lengths.q * key.head_dim;
    timed.tells = run.at("tells").boolean();
    timed.table = std::move(table);
    evidence.tables.push_back(std::move(timed));
  }
}

MeasuredKernel read_calibration(const JsonValue& root) {
  root.expect_schema(kSchema);
  root.expect_keys({"schema", "version", "machine", "shown", "parts", "runs"});
  const JsonValue machine = root.at("machine");
  if (!root.has("shown")) {
    root.reject(
        "it has no `shown`: what single tasks took, from which phases are found, is not "
        "kept by `calibrate` from before 2026-11-30, nor with --memory");
  }
  MeasuredKernel measured;
  measured.device.name = machine.at("name").string();
  measured.device.device = machine.at("device").string();
  measured.device.driver = machine.at("driver").string();
  const JsonValue sms = machine.at("sms");
  measured.device.sms = static_cast<std::int32_t>(sms.integer(1, kMostSms));
  const JsonValue shown = root.at("shown");
  measured.evidence.shown = read_kernel_times(shown);
  if (measured.evidence.shown.key.dtype.empty()) {
    shown.reject("what the machine adds to spinning is found beside its ticks, on a device alone");
  }
  const std::string& name = measured.evidence.shown.key.kernel;
  if (std::ranges::none_of(kernels(), [&](const Kernel& each) { return each.name == name; })) {
    shown.at("kernel").reject("there is no kernel '" + name + "' here");
  }
  read_parts(root.at("parts"), measured.evidence);
  read_tables(root.at("runs"), measured.device.sms, measured.evidence);
  return measured;
}

}  // namespace

std::string write_calibration(const Machine& device, const Evidence& evidence,
                              const Calibration& calibration) {
  Machine alone{.name = device.name,
                .device = device.device,
                .driver = device.driver,
                .sms = device.sms,
                .kernels = {calibration.times}};
  Json runs = Json::array();
  for (std::size_t index = 0; index < evidence.tables.size(); ++index)
    runs.push_back(run_json(evidence.tables[index], calibration.residuals[index]));
  return std::string("{\"schema\": \"") + kSchema + "\", \"version\": " + json_quote(version()) +
         ",\n\"machine\": " + write_machine_json(alone) + ",\n\"shown\":\n" +
         write_kernel_times(evidence.shown) + ",\n\"parts\": " + parts_json(evidence).text() +
         ",\n\"runs\": " + runs.text() + "}\n";
}

std::vector<MeasuredKernel> read_calibrations(std::string_view text, const std::string& source) {
  std::vector<MeasuredKernel> all;
  for (const auto& [each, name] : json_texts(text, source)) {
    const JsonDocument document(each, name);
    all.push_back(read_calibration(document.root()));
  }
  return all;
}

}  // namespace stagger::workbench
