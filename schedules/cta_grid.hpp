#pragma once

#include "core/table.hpp"
#include "schedules/schedule.hpp"

#include <vector>

namespace stagger::schedules {

/// Each was the fastest of some problem on a device. Where the dQ of so many heads does not fit
/// into L2 `optimize` takes such a table only if it is worth it (search/rating.hpp).
inline constexpr std::int64_t kSwizzlesTried[] = {4, 8, 16};

/// The parameter of the schedules that keep several heads in flight for the L2 cache.
/// FlashAttention-3 uses the largest power of two of heads whose Q, dO and dQ fit 40 MiB.
inline constexpr Parameter kSwizzle = {
    .name = "swizzle",
    .meaning = "heads whose CTAs are launched interleaved (L2 sections)",
    .fallback = 1,
    .least = 1,
    .most = 1 << 20,
    .tried = kSwizzlesTried};

/// In which order the heads of a grid are launched, where groups of them share K and V.
enum class LaunchOrder {
  group,   ///< the heads of a group one after the other
  member,  ///< the first head of every group, then the second of every group, ...
};

inline constexpr const char* kLaunchOrderNames[] = {"group", "member"};

/// The parameter of the schedules that launch CTAs. Where parts are combined in order, those of a
/// group that run beside each other end together and wait for each other; by member they do not.
inline constexpr Parameter kLaunchOrder = {.name = "launch",
                                           .meaning = "of heads that share K and V",
                                           .fallback = 0,
                                           .least = 0,
                                           .most = 1,
                                           .words = kLaunchOrderNames};

/// How a grid is launched: the parameters above.
struct Launch {
  explicit Launch(const Parameters& parameters);

  std::int64_t swizzle = 1;
  LaunchOrder order = LaunchOrder::group;
};

/// The KV tiles of a grid in an order.
using KvOrder = std::vector<KvTile> (*)(const TileGrid& grid);
/// Each KV tile's live Q tiles in visiting order.
using QOrder = IndexVector<KvTile, std::vector<QTile>> (*)(const TileGrid& grid);

/// Launches one CTA per (head, KV tile) with live tiles, sections of `swizzle` heads at a time:
/// for each section, for each place among the KV tiles, for each head of the section the KV tile
/// that it has there.
/// Ranks follow the launch order, so that no residency or release can deadlock (theorem A of
/// schedules/README.md).
/// Source: FlashAttention-3, hopper/tile_scheduler.hpp:385-409.
void launch_ctas(const Problem& problem, const Launch& launch, KvOrder kv_order, QOrder q_order,
                 Table& table);

/// Each KV tile's live Q tiles, ascending.
[[nodiscard]] IndexVector<KvTile, std::vector<QTile>> ascending_q(const TileGrid& grid);
/// Each KV tile's live Q tiles, descending.
[[nodiscard]] IndexVector<KvTile, std::vector<QTile>> descending_q(const TileGrid& grid);

/// KV tiles 0 … n−1.
[[nodiscard]] std::vector<KvTile> ascending_kv(const TileGrid& grid);
/// KV tiles n−1 … 0.
[[nodiscard]] std::vector<KvTile> descending_kv(const TileGrid& grid);
/// KV tiles by chain length, longest first, then ascending. A causal mask gives 0 … n−1.
[[nodiscard]] std::vector<KvTile> longest_first_kv(const TileGrid& grid);

}  // namespace stagger::schedules
