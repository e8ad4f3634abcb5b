// cu_seqlens: sequences of several lengths, where each begins.

#include "core/error.hpp"
#include "core/formats/import_context.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"

#include <algorithm>

namespace stagger::formats {
namespace {

/// What names of one side end with: keys are `k` to some and `kv` to others.
using Endings = std::vector<std::string>;

/// The name of that beginning that the file has, with any of the endings; empty if it has none.
/// Throws Error{invalid_input} if it has two.
std::string name_of(const Bundle& bundle, const std::string& beginning, const Endings& endings) {
  std::string found;
  for (const std::string& ending : endings) {
    const std::string name = beginning + ending;
    if (!bundle.has(name) && !bundle.words.contains(name)) continue;
    if (!found.empty()) {
      bundle.reject(found + " and " + name + " are there, which are names of the same");
    }
    found = name;
  }
  return found;
}

/// Lengths from their sums, shortened to what is used of each.
std::vector<std::int64_t> lengths_of(const Import& import, const std::string& name,
                                     const Endings& endings) {
  const Bundle& bundle = import.bundle;
  const Tensor& tensor = bundle.at(name);
  if (tensor.shape.size() != 1) {
    bundle.reject(name + " has a shape of " + shape_words(tensor.shape) + ", not [sequences + 1]");
  }
  const std::vector<std::int64_t>& sums = tensor.elements;
  if (sums.empty() || sums.front() != 0) bundle.reject(name + " does not begin with 0");
  std::vector<std::int64_t> lengths;
  for (std::size_t place = 1; place < sums.size(); ++place) {
    if (sums[place] < sums[place - 1] || sums[place] > kMaxTokens) {
      bundle.reject(name + "[" + std::to_string(place) + "] = " + std::to_string(sums[place]) +
                    " after " + std::to_string(sums[place - 1]) +
                    ": sums never decrease, and are " + std::to_string(kMaxTokens) + " at most");
    }
    lengths.push_back(sums[place] - sums[place - 1]);
  }
  if (const std::string most = name_of(bundle, "max_seqlen_", endings); !most.empty()) {
    const std::int64_t given = import.numbers(most, 1)->front();
    const auto longest = std::ranges::max_element(lengths);
    if (longest != lengths.end() && *longest > given) {
      bundle.reject(most + " is " + std::to_string(given) + ", and sequence " +
                    std::to_string(longest - lengths.begin()) + " has " + std::to_string(*longest) +
                    " tokens");
    }
  }
  if (const std::string shorter = name_of(bundle, "seqused_", endings); !shorter.empty()) {
    const auto used = import.numbers(shorter);
    if (used->size() != lengths.size()) {
      bundle.reject(shorter + " has " + std::to_string(used->size()) + " numbers for " +
                    counted(std::ssize(lengths), "sequence"));
    }
    for (std::size_t place = 0; place < lengths.size(); ++place) {
      if ((*used)[place] < 0 || (*used)[place] > lengths[place]) {
        bundle.reject(shorter + "[" + std::to_string(place) + "] = " +
                      std::to_string((*used)[place]) + " of " + std::to_string(lengths[place]));
      }
      lengths[place] = (*used)[place];
    }
  }
  return lengths;
}

}  // namespace

ImportedMask read_cu_seqlens(Import& import) {
  const Bundle& bundle = import.bundle;
  const Endings queries = {"q"};
  const Endings keys = {"k", "kv"};
  const std::string both = name_of(bundle, "cu_seqlens", {""});
  std::string q_name = name_of(bundle, "cu_seqlens_", queries);
  std::string kv_name = name_of(bundle, "cu_seqlens_", keys);
  if (q_name.empty()) q_name = both;
  if (kv_name.empty()) kv_name = both;
  if (q_name.empty()) bundle.reject("cu_seqlens_q is missing, or cu_seqlens of both");
  if (kv_name.empty()) bundle.reject("cu_seqlens_k is missing, or cu_seqlens of both");
  std::vector<std::int64_t> q = lengths_of(import, q_name, queries);
  std::vector<std::int64_t> kv = lengths_of(import, kv_name, keys);
  if (q.size() != kv.size()) {
    bundle.reject(q_name + " has " + std::to_string(q.size()) + " sequences, " + kv_name + " " +
                  std::to_string(kv.size()));
  }
  const std::optional<bool> causal = import.causal();
  if (!causal) import.understood("not causal: neither the file nor --mask-causal says so");
  const auto window = import.numbers("window_size", 2).value_or(std::vector<std::int64_t>{-1, -1});
  const std::int64_t right = causal.value_or(false) ? 0 : window[1];
  const auto side = [](std::int64_t tokens) {
    return tokens == -1 ? std::string("all") : std::to_string(tokens);
  };
  import.understood(counted(std::ssize(q), "sequence") + "; window: left=" + side(window[0]) +
                    ", right=" + side(right) + ", bottom-right aligned in each sequence");
  const auto or_one = [](std::int64_t tokens) { return tokens == 0 ? 1 : tokens; };
  const std::int64_t align_q = or_one(import.request.shape.q);
  const std::int64_t align_kv = or_one(import.request.shape.kv);
  import.understood(
      "each sequence begins a tile; what is left of the one before is padding, so that the "
      "last tile of each but the last is never full");
  const auto zeros = std::ranges::count(q, 0) + std::ranges::count(kv, 0);
  if (zeros > 0) {
    import.understood(counted(zeros, "sequence") +
                      " of no queries or no keys: nobody may wait for them");
  }
  Mask mask = make_mask("varlen", {{"q_lengths", std::move(q)},
                                   {"kv_lengths", std::move(kv)},
                                   {"causal", causal.value_or(false)},
                                   {"left", window[0]},
                                   {"right", window[1]},
                                   {"align_q", align_q},
                                   {"align_kv", align_kv}});
  const Lengths lengths = mask.family->implied(mask);
  return import.of_tokens(std::move(mask), lengths);
}

}  // namespace stagger::formats
