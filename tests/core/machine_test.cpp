#include "core/machine.hpp"

#include "core/error.hpp"
#include "core/files.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"

namespace stagger {
namespace {

const std::string kMachine = R"({"schema": "stagger.machine/1", "name": "h200",
 "device": "NVIDIA H200", "driver": "13.0", "sms": 132,
 "kernels": [
  {"kernel": "portable", "dtype": "fp32", "head_dim": 64, "tile_q": 32, "tile_kv": 64,
   "model": "chain", "release": "immediate",
   "ns": {
     "compute": {"value": 9120, "quartiles": [9088, 9184], "samples": 4200},
     "compute_partial": {"value": 9300, "quartiles": [9216, 9408], "samples": 300},
     "reduce": {"value": 800, "quartiles": [768, 832], "samples": 4500},
     "latency": {"value": 704, "quartiles": [640, 736], "samples": 900},
     "launch": {"value": 2100, "quartiles": [2016, 2208], "samples": 120},
     "epilogue": {"value": 300, "quartiles": [288, 320], "samples": 120},
     "start": {"value": 8000, "quartiles": [7600, 8900], "samples": 24},
     "passes_per_mi": {"value": 2600, "quartiles": [2500, 2700], "samples": 96}},
   "fit": {"runs": 24, "median_ppm": 8000, "worst_ppm": 31000},
   "date": "2026-01-02",
   "command": "stagger calibrate --device cuda --kernel portable"},
  {"kernel": "replay",
   "model": "chain", "release": "immediate",
   "ns": {
     "compute": {"value": 32, "quartiles": [0, 64], "samples": 1},
     "reduce": {"value": 64, "quartiles": [32, 96], "samples": 1},
     "latency": {"value": 700, "quartiles": [672, 736], "samples": 1},
     "launch": {"value": 0, "quartiles": [0, 0], "samples": 0},
     "epilogue": {"value": 0, "quartiles": [0, 0], "samples": 0},
     "start": {"value": 0, "quartiles": [0, 0], "samples": 0}},
   "fit": {"runs": 0, "median_ppm": 0, "worst_ppm": 0},
   "date": "",
   "command": ""}]}
)";

const KernelKey kPortable{.kernel = "portable", .dtype = "fp32", .head_dim = 64, .tile = {32, 64}};

/// Whether reading the profile with `from` replaced by `to` fails with these words.
void expect_rejected(const std::string& profile, const std::string& from, const std::string& to,
                     const std::string& words) {
  const std::string text = test::replaced(profile, from, to);
  CAPTURE(from, to);
  CHECK_THAT(test::message_of([&] { static_cast<void>(read_machine_json(text, "h200.json")); },
                              ErrorKind::invalid_input),
             Catch::Contains(words));
}
void expect_rejected(const std::string& from, const std::string& to, const std::string& words) {
  expect_rejected(kMachine, from, to, words);
}

TEST_CASE("a profile reads as it says and writes what it read") {
  const Machine machine = read_machine_json(kMachine, "h200.json");
  CHECK(machine.device == "NVIDIA H200");
  CHECK(machine.sms == 132);
  const Timing timing = times_of(machine, kPortable).timing();
  CHECK(timing.compute == 9120);
  CHECK(timing.compute_partial == 9300);
  CHECK(timing.reduce == 800);
  CHECK(timing.latency == 704);
  CHECK(timing.launch == 2100);
  CHECK(timing.epilogue == 300);
  CHECK(times_of(machine, {.kernel = "replay"}).timing().uniform());
  CHECK_FALSE(times_of(machine, {.kernel = "replay"}).passes_per_mi.has_value());
  CHECK(write_machine_json(machine) == kMachine);
}

const std::string kRates =
    R"("block": {"gemm_tflops": 730.5, "gemm_t0_ns": 24000, "gemm_exposed_permille": 236,
   "copy_tbs": [[1000000,2],[4000000,4]],
   "kappa_permille": [{"ops": "eager", "layers": "swiglu", "permille": 4400},{"permille": 2000}],
   "operations": {"broadcast_gelems": 270, "fused_gelems": 598.5},
   "throttle": {"above_tflops": 420, "ppm": 520, "rested_permille": 901},
   "attention": [
    {"name": "a", "head_dim": 128, "causal": true, "seq": 4096, "forward_tflops": 600, "backward_tflops": 400},
    {"name": "a", "head_dim": 128, "causal": true, "seq": 4096, "heads": 28, "forward_tflops": 590, "backward_tflops": 350}],
   "source": "measured",
   "date": "2026-01-02"},
 "kernels")";

std::string with_rates() {
  std::string text = kMachine;
  return text.replace(text.find("\"kernels\""), 9, kRates);
}

TEST_CASE("the rates of blocks are read as they are written") {
  const Machine machine = read_machine_json(with_rates(), "h200.json");
  REQUIRE(machine.blocks.size() == 1);
  const BlockRates& rates = machine.blocks.front();
  CHECK(rates.gemm_tflops == 730.5);
  CHECK(rates.gemm_t0_ns == 24000);
  CHECK(rates.kappas.size() == 2);
  CHECK(rates.kappas[0].layers == "swiglu");
  CHECK_FALSE(rates.kappas[1].ops.has_value());
  CHECK(rates.operations == OperationRates{.broadcast = 270, .fused = 598.5});
  CHECK(rates.gemm_exposed_permille == 236);
  CHECK(rates.throttle == Throttle{.above_tflops = 420, .ppm = 520, .rested_permille = 901});
  CHECK(rates.attention[0].backward_tflops == 400);
  CHECK_FALSE(rates.attention[0].heads.has_value());
  CHECK(rates.attention[1].heads == 28);
  CHECK(write_machine_json(machine) == with_rates());
  CHECK(read_machine_json(kMachine, "h200.json").blocks.empty());
}

/// The rates, and as many of another load.
std::string with_loads(const std::string& one, const std::string& other) {
  std::string text = with_rates();
  const std::size_t begin = text.find("{\"gemm_tflops\"");
  const std::size_t size = text.find(",\n \"kernels\"") - begin;
  const std::string rates = text.substr(begin + 1, size - 1);
  return text.replace(begin, size, "[{" + one + rates + ",\n  {" + other + rates + "]");
}

TEST_CASE("a profile has rates of blocks by the load that they were taken under") {
  const std::string text = with_loads("\"load\": \"burst\", ", "\"load\": \"sustained\", ");
  Machine machine = read_machine_json(text, "h200.json");
  REQUIRE(machine.blocks.size() == 2);
  CHECK(write_machine_json(machine) == text);
  machine.blocks[1].gemm_tflops = 7;
  CHECK(block_rates_of(machine, {}).gemm_tflops == 730.5);
  CHECK(block_rates_of(machine, Load::burst).gemm_tflops == 730.5);
  CHECK(block_rates_of(machine, Load::sustained).gemm_tflops == 7);
  BlockRates slower = machine.blocks[1];
  slower.gemm_tflops = 5;
  put(machine, slower);
  REQUIRE(machine.blocks.size() == 2);
  CHECK(block_rates_of(machine, Load::sustained).gemm_tflops == 5);
  BlockRates first =
      machine.blocks[0];  // keeps its place: it is what counts where none is asked for
  first.gemm_tflops = 9;
  put(machine, first);
  REQUIRE(machine.blocks.size() == 2);
  CHECK(block_rates_of(machine, {}).gemm_tflops == 9);

  // Rates that do not say their load give way to any that do.
  machine.blocks[0].load.reset();
  CHECK(read_machine_json(write_machine_json(machine), "again") == machine);
  put(machine, slower);
  CHECK_FALSE(machine.blocks[0].load.has_value());
  put(machine, first);
  REQUIRE(machine.blocks.size() == 2);
  CHECK(block_rates_of(machine, {}).load == Load::burst);

  machine.blocks.erase(machine.blocks.begin());
  CHECK(block_rates_of(machine, {}).gemm_tflops == 5);
  const auto refused = [&] {
    return test::message_of([&] { static_cast<void>(block_rates_of(machine, Load::burst)); },
                            ErrorKind::usage);
  };
  CHECK(refused() ==
        "the machine profile 'h200' has no rates of blocks under burst load; it has those "
        "under sustained load");
  machine.blocks.front().load.reset();
  CHECK(refused() ==
        "the machine profile 'h200' has no rates of blocks under burst load; it has those "
        "under a load that it does not say");
  machine.blocks.clear();
  CHECK(refused() ==
        "the machine profile 'h200' has no rates of blocks under burst load (its key 'block')");

  const auto twice = [&](const std::string& load, const std::string& words) {
    expect_rejected(with_loads(load, load), "h200", "h200", words);
  };
  twice("\"load\": \"burst\", ", "/block/1: the rates of burst load are given twice");
  twice("", "/block/1: two do not say their load");
  twice("\"load\": \"idle\", ", "/block/0/load: unknown load 'idle'");
}

TEST_CASE("a clock falls with what tensor cores do, from a limit on") {
  const Throttle throttle{.above_tflops = 400, .ppm = 1000};
  CHECK(throttle.clock(0) == 1);
  CHECK(throttle.clock(400) == 1);
  CHECK(throttle.clock(500) == Approx(0.9));
  CHECK(throttle.clock(1e9) == Throttle::kLeastClock);
  CHECK(Throttle{}.clock(1e9) == 1);
  // What was timed rested takes as much longer as the block's clock is lower than the rested one.
  CHECK(throttle.within_ms(9, 0.9) == Approx(10));
  CHECK(Throttle{.rested_permille = 500}.within_ms(9, 0.9) == Approx(20));
}

TEST_CASE("a rate between two sizes is linear in the logarithm of the size") {
  const std::vector<RateAt> copy = {{1e6, 2}, {4e6, 4}};
  CHECK(rate_at(copy, 1) == 2);
  CHECK(rate_at(copy, 1e6) == 2);
  CHECK(rate_at(copy, 2e6) == Approx(3));
  CHECK(rate_at(copy, 4e6) == 4);
  CHECK(rate_at(copy, 1e12) == 4);
  CHECK(rate_at(std::vector<RateAt>{{1, 7}}, 1e9) == 7);
}

TEST_CASE("a profile's rates of blocks are read strictly") {
  const auto rejected = [](const std::string& from, const std::string& to,
                           const std::string& words) {
    expect_rejected(with_rates(), from, to, words);
  };
  expect_rejected("\"kernels\"", "\"block\": [], \"kernels\"", "/block: no rates are given");
  rejected("gemm_t0_ns", "gemm_t0", "/block: unknown key 'gemm_t0'");
  rejected("730.5", "0", "/block/gemm_tflops");
  rejected("730.5", "\"fast\"", "/block/gemm_tflops");
  rejected("[[1000000,2],[4000000,4]]", "[]", "/block/copy_tbs: no rate is given");
  rejected("[1000000,2]", "[1000000]", "/block/copy_tbs/0");
  rejected("[1000000,2]", "[4000000,2]", "/block/copy_tbs/1: sizes must ascend");
  rejected("\"eager\"", "\"lazy\"", "/block/kappa_permille/0/ops: unknown ops 'lazy'");
  rejected("4400", "0", "/block/kappa_permille/0/permille");
  rejected("\"layers\"", "\"layer\"", "/block/kappa_permille/0: unknown key 'layer'");
  std::string least = with_rates();
  least.replace(least.find("4400"), 4, "1");
  CHECK(read_machine_json(least, "least").blocks.front().kappas[0].permille == 1);
  rejected("236", "-1", "/block/gemm_exposed_permille");
  rejected("420", "-1", "/block/throttle/above_tflops");
  rejected("520", "1000001", "/block/throttle/ppm");
  rejected("\"ppm\"", "\"percent\"", "/block/throttle: unknown key 'percent'");
  rejected("\"heads\": 28", "\"heads\": 0", "/block/attention/1/heads");
  rejected("\"heads\": 28, ", "", "at this shape are given twice");
  rejected("\"seq\": 4096", "\"seq\": 0", "/block/attention/0/seq");
  rejected("\"causal\": true", "\"causal\": 1", "/block/attention/0/causal");
  rejected("\"name\": \"a\"", "\"nom\": \"a\"", "/block/attention/0: unknown key 'nom'");
}

TEST_CASE("passes take what their elements take") {
  const Machine machine = read_machine_json(kMachine, "h200.json");
  KernelTimes times = times_of(machine, kPortable);
  CHECK(times.passes_ns(0) == 0);
  CHECK(times.passes_ns(1) == 0);
  CHECK(times.passes_ns(1 << 20) == 2600);
  CHECK(times.passes_ns((5 << 20) + (1 << 19)) == 5 * 2600 + 1300);
  CHECK(times_of(machine, {.kernel = "replay"}).passes_ns(std::int64_t{1} << 62) == 0);
  times.passes_per_mi->value = 1 << 20;
  CHECK(times.passes_ns((std::int64_t{1} << 61) - 1) == (std::int64_t{1} << 61) - 1);
  CHECK(test::message_of([&] { static_cast<void>(times.passes_ns(std::int64_t{1} << 62)); },
                         ErrorKind::limit) ==
        "the passes over 4611686018427387904 elements of Q would take more than 2^61 ns");
}

TEST_CASE("a kernel that is not there is named beside those that are") {
  const Machine machine = read_machine_json(kMachine, "h200.json");
  KernelKey other = kPortable;
  other.tile.kv = 128;
  try {
    static_cast<void>(times_of(machine, other));
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK(error.what() ==
          std::string("the machine profile 'h200' has no times of portable, fp32, head_dim 64, "
                      "tiles of 128 x 32 tokens; it has those of\n  portable, fp32, head_dim 64, "
                      "tiles of 64 x 32 tokens\n  replay"));
  }
}

TEST_CASE("an entry replaces that of its key and no other") {
  Machine machine = read_machine_json(kMachine, "h200.json");
  KernelTimes times = machine.kernels[0];
  times.compute.value = 1;
  put(machine, times);
  REQUIRE(machine.kernels.size() == 2);
  CHECK(machine.kernels[0] == times);
  times.key.head_dim = 128;
  put(machine, times);
  REQUIRE(machine.kernels.size() == 3);
  CHECK(read_machine_json(write_machine_json(machine), "again") == machine);
}

TEST_CASE("random profiles survive their file") {
  test::Random random(80);
  const auto measured = [&] {
    const std::int64_t low = random.between(0, 1'000'000);
    return MeasuredNs{.value = random.between(0, 1'000'000),
                      .low = low,
                      .high = low + random.between(0, 9),
                      .samples = random.between(0, 99)};
  };
  for (int round = 0; round < 100; ++round) {
    Machine machine{.name = "m \"1\"", .device = "d\\", .driver = "", .sms = 7};
    if (random.chance(2)) {
      machine.memory = DeviceMemory{.l2_bytes = random.between(1, 99),
                                    .bytes_per_ns = random.between(1, 99),
                                    .stream_bytes_per_ns = random.between(0, 99),
                                    .add_permille = random.between(0, kMostAddPermille),
                                    .latency_ns = random.between(0, 99),
                                    .date = "2026",
                                    .command = "c"};
    }
    for (std::int64_t entry = random.between(0, 4); entry > 0; --entry) {
      KernelTimes times{.key = kPortable, .date = "2026", .command = "a\nb"};
      times.key.head_dim = entry;
      times.model = random.chance(2) ? Model::chain : Model::overlap;
      times.release = random.chance(2) ? Release::immediate : Release::delayed;
      times.steps = static_cast<std::int32_t>(random.between(1, 3));
      times.cut_partial = random.chance(2);
      times.compute = measured();
      if (random.chance(2)) times.compute_partial = measured();
      times.start = measured();
      if (random.chance(2)) times.passes_per_mi = measured();
      if (random.chance(2)) times.congestion = measured();
      if (random.chance(2)) times.spread = measured();
      if (random.chance(2)) {
        times.dip = measured();
        times.dip_loss = measured();
        times.dip_loss->value = std::min(times.dip_loss->value, times.dip->value / 2);
      }
      put(machine, times);
    }
    CAPTURE(round);
    REQUIRE(read_machine_json(write_machine_json(machine), "file") == machine);
  }
}

TEST_CASE("what is wrong with a profile is named with its place") {
  expect_rejected("machine/1", "machine/2", "/schema: unknown schema 'stagger.machine/2'");
  expect_rejected("\"sms\": 132", "\"sms\": 0", "/sms: must be an integer from 1");
  expect_rejected("\"sms\"", "\"gpus\"", "unknown key 'gpus'; known: schema, name");
  expect_rejected("\"dtype\": \"fp32\", ", "\"dtype\": \"fp32\", \"x\": 1, ",
                  "/kernels/0: unknown key 'x'");
  expect_rejected("\"head_dim\": 64, ", "", "/kernels/0: key 'head_dim' is missing");
  expect_rejected("\"tile_q\": 32", "\"tile_q\": 0", "/kernels/0/tile_q: must be an integer");
  expect_rejected("\"chain\"", "\"magic\"",
                  "/kernels/0/model: unknown model 'magic'; known: chain");
  expect_rejected("9120", "-1", "/kernels/0/ns/compute/value: must be an integer from 0");
  expect_rejected("9120", "1e3", "/kernels/0/ns/compute/value: must be an integer");
  expect_rejected("9120", "99999999999999", "/kernels/0/ns/compute/value: must be an integer");
  expect_rejected("[9088, 9184]", "[9088]", "/kernels/0/ns/compute/quartiles: quartiles are");
  expect_rejected("[9088, 9184]", "[9184, 9088]", "/kernels/0/ns/compute/quartiles/1: must be");
  expect_rejected("\"reduce\": {\"value\": 800", "\"reducing\": {\"value\": 800",
                  "/kernels/0/ns: unknown key 'reducing'");
  expect_rejected("\"passes_per_mi\"", "\"passes\"", "/kernels/0/ns: unknown key 'passes'");
  expect_rejected("\"value\": 2600", "\"value\": -1",
                  "/kernels/0/ns/passes_per_mi/value: must be an integer from 0");
  expect_rejected("[2500, 2700]", "[2500]",
                  "/kernels/0/ns/passes_per_mi/quartiles: quartiles are [lower, upper]");
  expect_rejected("\"runs\": 24, ", "", "/kernels/0/fit: key 'runs' is missing");
  expect_rejected("\"kernels\": [", "\"kernels\": [7, ", "/kernels/0: must be an object");
  expect_rejected("{\"kernel\": \"replay\"",
                  "{\"kernel\": \"portable\", \"dtype\": \"fp32\", \"head_dim\": 64, \"tile_q\": "
                  "32, \"tile_kv\": 64",
                  "/kernels/1: the times of portable, fp32, head_dim 64, tiles of 64 x 32 tokens "
                  "are given twice");
}

TEST_CASE("a tile's bytes are those of its tensors, and sums are in fp32") {
  const TileBytes single =
      tile_bytes({.kernel = "hopper", .dtype = "fp32", .head_dim = 64, .tile = {32, 128}});
  CHECK(single.q == 2 * 32 * 64 * 4 + 2 * 32 * 4);  // Q and dO, lse and D
  CHECK(single.dq == 32 * 64 * 4);
  CHECK(single.kv == 2 * 128 * 64 * 4);
  CHECK(single.gradient == 2 * 128 * 64 * 4);
  for (const char* dtype : {"bf16", "fp16"}) {
    const TileBytes half =
        tile_bytes({.kernel = "hopper", .dtype = dtype, .head_dim = 80, .tile = {16, 48}});
    CHECK(half.q == 2 * 16 * 80 * 2 + 2 * 16 * 4);
    CHECK(half.dq == 16 * 80 * 4);
    CHECK(half.kv == 2 * 48 * 80 * 2);
    CHECK(half.gradient == 2 * 48 * 80 * 2);
  }
}

}  // namespace
}  // namespace stagger
