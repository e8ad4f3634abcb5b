#pragma once

#include "core/json.hpp"
#include "workbench/archive.hpp"
#include "workbench/finalists.hpp"
#include "workbench/optimization.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// What the best tables took on a device.
struct MeasuredFinalists {
  std::string device;                          ///< its name; empty: none was asked for
  std::vector<workbench::Finalist> finalists;  ///< the fastest first

  [[nodiscard]] bool asked() const { return !device.empty(); }
  /// The fastest one; nullptr if none ran.
  [[nodiscard]] const workbench::Finalist* fastest() const;
};

/// What a search was asked to write.
struct OptimumFiles {
  std::string table;  ///< where the best table is; empty: nowhere
  std::string proof;  ///< where a proof may be; empty: none was asked for
};

/// Schema `stagger.optimum/1`.
[[nodiscard]] Json optimum_json(const workbench::Optimization& optimization,
                                const MeasuredFinalists& measured, const OptimumFiles& files);
[[nodiscard]] std::string optimum_text(const workbench::Optimization& optimization,
                                       const MeasuredFinalists& measured,
                                       const OptimumFiles& files);

/// Schema `stagger.archive-check/1`.
[[nodiscard]] Json archive_json(const workbench::ArchiveCheck& check);
/// A line for each entry that does not just hold, and a summary.
[[nodiscard]] std::string archive_text(const workbench::ArchiveCheck& check);

}  // namespace stagger::cli
