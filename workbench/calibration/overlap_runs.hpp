#pragma once

#include "gpu/overlap/overlap.hpp"
#include "workbench/block/overlap_fit.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stagger::workbench {

/// A way to make bits beside GEMMs, and what it is called.
struct BesideWay {
  const char* name;
  gpu::overlap::Room room;
  gpu::overlap::BitsPlace bits;
};
/// The ways there are: three or four warps of the GEMM's own CTAs, and a second stream.
[[nodiscard]] const std::vector<BesideWay>& beside_ways();

/// One shape by every way; times are medians, ms.
struct OverlapRun {
  /// A measurement for each of beside_ways(); what is not beside anything is equal in all.
  std::vector<block::MeasuredOverlap> ways;
  double clock_ghz = 0;                 ///< of an SM while it had GEMMs without bits, the mean
  std::vector<double> clocks_ghz = {};  ///< likewise while bits were made beside them, by ways
};

/// The kernel that makes bits, alone.
struct RngRun {
  block::MeasuredRng measured;
  std::int32_t registers = 0;
};

/// The kernel that makes bits with so many CTAs, launched behind a GEMM that leaves no room.
struct CrowdRun {
  std::int64_t ctas = 0;
  std::int64_t ctas_per_sm = 0;  ///< that are resident
  double gemm = 0;               ///< ms, alone
  double full = 0;               ///< ms, the bits by an SM's residents on every SM
  double measured = 0;           ///< ms, both
  double predicted = 0;          ///< block::crowded()
};

/// A problem that is ready to run.
struct LoadedOverlap {
  std::function<gpu::overlap::WayTimes(const gpu::overlap::Way&)> run;
  std::function<gpu::overlap::WayCheck(const gpu::overlap::Way&)> check;
};

/// What problems are run on.
struct OverlapDevice {
  std::function<LoadedOverlap(const gpu::overlap::OverlapProblem&)> load;
  std::function<std::int32_t(const gpu::DropoutRule&)> registers;  ///< a thread's, to make bits
  std::function<gpu::overlap::Residents(const gpu::DropoutRule&)> residents;
};
/// The first GPU, which must be there.
[[nodiscard]] OverlapDevice overlap_gpu();

/// For how long ways are timed in turns.
struct TurnsRequest {
  double warm_up_ms = 300;  ///< of runs that do not count; a GPU takes as long to find its clock
  double least_ms = 3000;   ///< > 0; of runs that count, of all ways together
  int least_rounds = 10;    ///< of all ways
};

/// What a device was asked.
struct OverlapRequest {
  std::vector<block::DropoutShape> shapes;
  TurnsRequest turns = {};
  OverlapDevice device = overlap_gpu();
  std::function<void(double fraction)> progress = {};
};
/// heads 48, 64, 96 by 2,048 … 16,384 tokens.
[[nodiscard]] OverlapRequest usual_overlap_request();

struct OverlapRuns {
  std::vector<RngRun> rng;
  std::vector<OverlapRun> shapes;
  std::vector<CrowdRun> crowds;
  std::int64_t words_checked = 0;
  std::int64_t samples_checked = 0;  ///< by the host
};

/// The four GEMMs of a block: QKV, projection, two of the FFN. Their FLOPs are those of the model.
[[nodiscard]] std::vector<gpu::overlap::GemmShape> gemms_of(const block::DropoutShape& shape);

/// Runs it on its device. Every way of every shape is checked once: all
/// bits by another kernel; samples of bits, of products and of attention by the host; products of
/// all ways, and attention that makes and that reads bits, to be the same bits. Throws
/// Error{device} if one is wrong.
[[nodiscard]] OverlapRuns measure_overlap(const OverlapRequest& request);

/// The way that takes least over all shapes, by beside_ways().
[[nodiscard]] std::size_t best_way(const OverlapRuns& runs);

/// `base` with the constants of a way.
[[nodiscard]] block::Calibration overlap_calibration(const block::Calibration& base,
                                                     const OverlapRuns& runs, std::size_t way);

}  // namespace stagger::workbench
