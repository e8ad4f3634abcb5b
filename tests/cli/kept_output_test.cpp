// What commands print, kept in tests/golden/cli-*.txt letter by letter: text at some widths and in
// colour, JSON, CSV and Markdown, what they complain of, and their exit statuses. Each is called as
// a program calls it, with small problems, and files that the calls before it wrote.

#include "tests/cli/called.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace stagger::cli {
namespace {

void write_file(const std::string& name, const std::string& text) {
  std::ofstream(name) << text;
}

TEST_CASE("what analyze, show and list print is as kept") {
  const Desk desk;
  write_file("config.json",
             R"({"schema": "stagger.config/1", "mask": "causal", "n": 4, "schedule": "spt"})");
  CHECK(
      test::golden_difference(
          "cli-analyze.txt",
          all_said({
              "analyze --mask causal --n 4 --heads 2 --schedule symmetric-shift",
              "analyze --mask causal --n 4 --heads 2 --schedule symmetric-shift --json",
              "analyze --mask full --n 4 --schedule shift --latency 2 --expect 'makespan < 5'",
              "analyze --mask causal --n 5 --heads 2 --schedule descending --model overlap "
              "--launch 3 --epilogue 2 --width 60",
              "analyze --mask tiles:rows=fp.+.ff+..f --n 3 --schedule spt --compute 1000 "
              "--compute-partial 1200 --width 120",
              "analyze --mask causal --n 4 --schedule ascending --ranks kv-index",
              "analyze --mask sliding:left=1,right=0 --n 4 --schedule shift",
              "analyze --mask full --n 3 --heads 4 --heads-kv 2 --span 1 --combine ordered "
              "--schedule descending",
              "analyze --mask causal --n 4 --design two-pass",
              "analyze --mask causal --n 4 --design split:buffers=2 --json",
              "analyze --mask causal --seq 512 --tile-q 64 --tile-kv 128 --heads 4 --schedule "
              "spt --machine $h200 --kernel hopper --dtype bf16 --head-dim 128",
              "analyze --n 4",
              "analyze --mask causal --n 6 --heads 6 --heads-kv 2 --span auto --sms 4 --schedule "
              "spt --reduce-kv 2",
              "analyze --mask full --seq-q 12 --seq-kv 8 --tile-q 2 --tile-kv 4 --heads 2 "
              "--schedule grid-ascending --release delayed --residency 2",
              "analyze --mask full --n 4 --heads 3 --schedule spt --l2 4096 --bandwidth 2 "
              "--head-dim 16 --tile-q 4 --tile-kv 4 --tick-ns 10",
              "analyze --mask causal --n 4 --schedule symmetric-shift --expect 'gap == 0' --expect "
              "'makespan < bound'",
              "analyze --mask causal --n 4 --schedule symmetric-shift --expect 'makespam < 5'",
              "analyze --config config.json",
              "analyze --config config.json --n 3 --json",
              "analyze --config none.json",
              "show --mask causal --n 4 --heads 2 --schedule symmetric-shift",
              "show --mask causal --n 4 --schedule spt --color always",
              "show --mask causal --n 4 --schedule spt --ascii --width 40",
              "show --mask causal --n 3 --schedule spt --json",
              "show --mask sliding:left=2,right=0 --seq 12 --tile-q 2 --tile-kv 3",
              "show --mask document:lengths=3+5,causal=true --n 8 --json",
              "show --mask causal --n 300 --width 50",
              "show --mask full --n 3 --design two-pass",
              "show --mask full --n 3 --heads 14 --schedule grid-ascending --width 30",
              "analyze --mask full --n 4 --heads 4 --heads-kv 2 --span 2x --schedule shift",
              "analyze --mask full --n 4 --heads 4 --heads-kv 2 --span 0 --schedule shift",
              "analyze --mask full --n 4 --heads 4 --heads-kv 2 --span ' 2' --schedule shift",
              "analyze --mask full --n 4 --heads 4 --heads-kv 2 --span 99999999999 --schedule spt",
              "analyze --mask causal --n 3 --schedule spt --residency 1 --json",
              "analyze --mask causal --n 4 --schedule ascending --ranks kv-index --json",
              "analyze --mask causal --n 5 --schedule descending --model slot",
              "list masks",
              "list schedules",
              "list schedules --json",
              "list designs",
              "list nothing",
              "list masks --json",
              "list designs --json",
          })) == "");
}

TEST_CASE("what compare, advise and formulas print is as kept") {
  const Desk desk;
  CHECK(test::golden_difference(
            "cli-compare.txt",
            all_said({
                "compare --mask causal --n 6 --heads 2 --schedules spt,shift,ascending,optimal",
                "compare --mask causal --n 6 --heads 2 --schedules spt,descending --json",
                "compare --mask causal --n 6 --schedules spt,shift,descending --csv",
                "compare --mask causal --n 6 --schedules spt,shift,descending --markdown",
                "compare --mask full --n 4 --schedules shift,spt,ascending --baseline ascending",
                "compare --mask full --n 4 --schedules shift,spt --baseline ascending --markdown",
                "compare --mask full --n 4 --schedules shift,spt --baseline spt --csv",
                "compare --mask causal --n 4 --heads 2 --schedules "
                "lpt-descending:swizzle=2,launch=member,spt --csv",
                "compare --mask causal --n 4 --schedules swizzle=2",
                "compare --mask causal --n 4 --schedules spt,spt",
                "compare --mask causal --n 4 --schedules spt, --csv",
                "compare --mask causal --n 6 --schedules spt,shift,ascending --invariant --json",
                "compare --mask causal --n 6 --schedules spt,symmetric-shift --residency 2 --csv",
                "compare --mask causal --n 6 --schedules spt,symmetric-shift --residency 2 "
                "--markdown",
                "compare --mask causal --n 6 --schedules spt,symmetric-shift --residency 2",
                "advise --mask causal --n 8 --heads 4",
                "advise --mask causal --n 8 --heads 4 --steady sms --width 60",
                "advise --mask sliding:left=2,right=0 --n 16 --heads 8 --heads-kv 2 --sms 8",
                "advise --mask causal --n 8 --heads 4 --json",
                "advise --mask causal --n 8 --heads 4 --steady nothing",
                "compare --mask full --n 4 --schedules spt --expect 'makespan_spt == 24'",
                "compare --mask full --n 4 --schedules spt --expect 'makespan_shift == 24'",
                "compare --mask causal --n 6 --schedules spt,shift,ascending --invariant",
                "compare --mask causal --seq 1024 --tile-q 64 --tile-kv 128 --heads 4 --schedules "
                "spt,descending --machine $h200 --kernel hopper --dtype bf16 --head-dim 128",
                "compare --mask causal --n 6 --heads 2 --schedules spt,shift --width 40",
                "compare --mask causal --n 6 --heads 2 --schedules spt,shift --color always",
                "formulas --n 2..4 --heads 1..2 --compute 5 --reduce 1",
                "formulas --n 3 --heads 1 --group 2 --compute 5 --reduce 1 --json",
                "formulas --n 4..2",
                "formulas --n 2 --group 0",
                "compare --designs --mask causal --n 4 --heads 2 --schedules spt,symmetric-shift",
                "compare --designs --mask causal --n 4 --heads 2 --schedules spt --json",
                "compare --designs --mask causal --n 4 --heads 2 --schedules spt --csv",
                "compare --designs --mask full --n 4 --schedules shift --markdown",
                "compare --designs --mask causal --seq 1024 --tile-q 64 --tile-kv 128 --heads 4 "
                "--schedules spt --machine $h200 --kernel hopper --dtype bf16 --head-dim 128",
            })) == "");
}

TEST_CASE("what is said of files, and written to them, is as kept") {
  const Desk desk;
  const std::string head =
      R"({"schema": "stagger.tickets/1", "name": "fa3-local", "dispatch": "in-order",)"
      "\n"
      R"( "semaphores": 2, "programs": [)"
      "\n";
  write_file("local.json", head +
                               "  [[0,0,1,1,0,0,0],[1,null,1,0,0,0,1]],\n"
                               "  [[0,1,1,1,0,1,0],[1,1,1,1,0,1,1]]]}\n");
  write_file("window.json", head +
                                "  [[0,0,1,1,0,0,0]],\n"
                                "  [[0,1,1,1,0,1,0],[1,1,1,1,0,1,1]]]}\n");
  write_file("a,b [Z9]@{~}.csv", "2\n1\n0\n");
  write_file("spt.csv", "2\n1\n0\n");
  write_file("twice.csv", "0,1\n0,1\n2,2\n");
  CHECK(test::golden_difference(
            "cli-files.txt",
            all_said({
                "export --mask causal --n 3 --schedule spt -o spt.table.json",
                "export --mask causal --n 3 --schedule spt -o -",
                "export --mask causal --n 3 --schedule ascending -o up.csv",
                "export --mask causal --n 3 --schedule spt --format csv -o -",
                "export --mask causal --n 3 --schedule spt --format dot -o -",
                "export --mask causal --n 3 --schedule spt --format txt -o -",
                "export --mask causal --n 3 --format mask.json -o -",
                "export --mask causal --n 3 -o mask.mask.json",
                "export --mask causal --n 2 --schedule spt -o -",
                "export --mask causal --n 2 --schedule spt",
                "export --mask causal --n 2 --schedule spt -o x.unknown",
                "verify spt.table.json",
                "verify up.csv",
                "verify up.csv --json",
                "verify spt.table.json --residency 1",
                "verify spt.table.json --release delayed --compute 3",
                "verify none.csv",
                "analyze --table up.csv --latency 1",
                "compare --table up.csv --schedules spt,descending",
                "diff spt.table.json up.csv",
                "diff spt.table.json spt.table.json",
                "diff spt.table.json up.csv --json",
                "diff spt.table.json up.csv --limit 1",
                "export --mask causal --n 5 --schedule ascending -o more.csv",
                "diff up.csv more.csv",
                "diff up.csv more.csv --json",
                "export --mask sliding:left=1,right=0 --n 3 --schedule ascending -o narrow.csv",
                "diff up.csv narrow.csv",
                "diff narrow.csv up.csv --json",
                "export --mask full --n 3 --schedule shift -o shift.csv",
                "diff shift.csv shift.csv --release delayed",
                "export --mask causal --n 4 --latency 2 -o m.mask.json",
                "export --mask causal --n 4 --head-dim 64 -o m.mask.json",
                "export --mask causal --n 4 --latency 2 -o m.cnf",
                "analyze --mask causal --n 4 --design split",
                "export --mask causal --n 4 --design split -o m.csv",
                "diff spt.table.json none.csv",
                "lint spt.table.json up.csv",
                "lint up.csv --residency 1",
                "lint up.csv --residency 1 --json",
                "lint up.csv none.csv",
                "lint local.json window.json",
                "lint window.json --minimize",
                "lint window.json --minimize --json",
                "lint window.json spt.csv none.csv --json",
                "lint window.json spt.csv --sarif -",
                "lint window.json spt.csv --junit -",
                "lint 'a,b [Z9]@{~}.csv' --sarif -",
                "lint spt.csv --residency 2",
                "lint spt.csv --dispatch static --residency 1 --sarif -",
                "lint spt.csv --dispatch static --residency 1 --minimize --json",
                "lint spt.csv --dispatch static --residency 2 --width 50",
                "lint twice.csv --limit 1",
                "lint --explain STG002",
                "lint --explain STG014 --width 50",
                "lint --explain STG002 --json",
                "lint",
                "diff spt.csv twice.csv",
                "diff window.json local.json",
                "diff window.json local.json --json",
                "diff more.table.json spt.table.json",
                "export --mask full --n 3 --heads 2 --heads-kv 1 --schedule descending -o "
                "more.table.json",
                "diff more.table.json spt.table.json",
                "show --table up.csv",
                "show --mask-file mask.mask.json --n 3",
            })) == "");
}

/// Runs that were measured, for predict: some of the repository's.
void write_measured_runs() {
  std::ifstream all(kSource + "/gpu/results/grid.jsonl");
  std::ofstream some("runs.jsonl");
  std::int64_t number = 0;
  for (std::string line; std::getline(all, line); ++number) {
    if (number % 25 == 3) some << line << "\n";
  }
}

TEST_CASE("what optimize, predict and run print is as kept") {
  const Desk desk;
  write_measured_runs();
  CHECK(
      test::golden_difference(
          "cli-runs.txt",
          all_said({
              "optimize --mask causal --n 4",
              "optimize --mask causal --n 3 --json",
              "optimize --mask full --n 3 --heads 2 --reduce 2 --effort 1 -o best.table.json",
              "optimize --mask causal --n 4 --rounds --expect 'makespan == 24'",
              "optimize --check-archive",
              "verify best.table.json",
              "predict runs.jsonl --machine $h200",
              "predict runs.jsonl --machine $h200 --json",
              "predict runs.jsonl --machine $h200 --expect 'median < 1' --width 60",
              "predict none.jsonl --machine $h200",
              "run --mask causal --n 4 --schedule spt --repeat 2 --head-dim 8 --threads 2",
              "run --mask causal --n 4 --schedule spt --repeat 2 --head-dim 8 --threads 2 "
              "--mode no-reduce --dtype bf16",
              "run --mask causal --n 4 --design split --repeat 2 --head-dim 8 --threads 2",
              "run --mask causal --n 4 --heads 2 --schedule spt --repeat 2 --head-dim 8 "
              "--threads 2 --dropout 0.1 --width 60",
              "run --mask causal --n 4 --schedule ascending --ranks kv-index --residency 2",
              "run --mask causal --n 4 --schedule spt --repeat 2 --head-dim 8 --threads 2 --json",
              "run --mask causal --n 4 --heads 4 --heads-kv 2 --schedule spt --repeat 2 --head-dim "
              "8 --threads 2 --dropout 0.25 --mask-bits stored --json",
              "run --mask causal --n 4 --design split --repeat 2 --head-dim 8 --threads 2 --json",
              "run --mask causal --n 4 --design opentau --repeat 2 --head-dim 8 --threads 2 "
              "--dtype bf16",
              "run --mask causal --n 3 --schedule ascending --ranks kv-index --residency 1 --json",
          })) == "");
}

TEST_CASE("what help and completion print is as kept") {
  const Desk desk;
  CHECK(test::golden_difference("cli-help.txt", all_said({
                                                    "help",
                                                    "help nothing",
                                                    "show --help",
                                                    "help version",
                                                    "man",
                                                    "completion bash",
                                                    "completion fish",
                                                    "completion zsh",
                                                    "completion tcsh",
                                                    "analyze --n",
                                                    "analyze --n x",
                                                    "analyze --nn 4",
                                                    "analyze --n 4 --n 5",
                                                    "analyze 4",
                                                })) == "");
}

/// Makes the first number of a tensor in a .safetensors file one more.
void spoil_tensor(const std::string& file, const std::string& tensor) {
  std::ostringstream read;
  read << std::ifstream(file, std::ios::binary).rdbuf();
  std::string text = read.str();
  std::size_t header = 0;  // its length is in the first 8 bytes, the least first
  for (std::size_t byte = 8; byte-- > 0;)
    header = header * 256 + static_cast<unsigned char>(text[byte]);
  const std::size_t offsets = text.find("data_offsets", text.find('"' + tensor + '"'));
  const std::size_t begin = std::stoul(text.substr(text.find('[', offsets) + 1));
  ++text[8 + header + begin];
  std::ofstream(file, std::ios::binary) << text;
}

TEST_CASE("what lint says of a place in a tensor is as kept") {
  const Desk desk;
  std::string text = said(
      "export --mask causal --seq 16 --tile-q 4 --tile-kv 4 --as fa4 --schedule spt -o "
      "order.safetensors");
  spoil_tensor("order.safetensors", "backward.dq_write_order");
  for (const char* form : {"", "--json", "--sarif -", "--junit -", "--minimize --width 60"})
    text += said(std::string("lint order.safetensors ") + form) + "\n";
  CHECK(test::golden_difference("cli-tensors.txt", text) == "");
}

TEST_CASE("a config has several values of an option that is given several times") {
  const Desk desk;
  std::ofstream("c.json")
      << R"({"schema": "stagger.config/1", "expect": ["makespan > 0", "makespan == 1", "n == 4"]})";
  const std::string text = said("analyze --mask causal --n 4 --schedule spt --config c.json");
  CHECK(text.find("expectation does not hold: makespan == 1") != std::string::npos);
  CHECK(text.ends_with("= 1\n"));
  std::ofstream("c.json")
      << R"({"schema": "stagger.config/1", "expect": ["makespan > 0", "n == 4"]})";
  CHECK(said("analyze --mask causal --n 4 --schedule spt --config c.json").find("\n= ") ==
        std::string::npos);
}

TEST_CASE("of a table that hangs its mask is written, and no order") {
  const Desk desk;
  std::ofstream("hangs.csv")
      << "stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=2,mask=full\n0:0:0:1,0:0:1:0\n"
         "0:1:1:1,0:1:0:0\n";
  for (const char* layout : {"flex", "bsr", "magi"}) {
    const std::string text =
        said(std::string("export --table hangs.csv -o mask.json --as ") + layout);
    CAPTURE(text);
    CHECK(text.find("hangs, and is not written") == std::string::npos);
    CHECK(std::filesystem::remove("mask.json"));
  }
  const std::string refused = said("export --table hangs.csv -o mask.json --as fa4");
  CHECK(refused.find("it hangs, and is not written") != std::string::npos);
  CHECK(refused.ends_with("= 4\n"));
  CHECK_FALSE(std::filesystem::exists("mask.json"));
}

TEST_CASE("what is said of masks that others wrote is as kept") {
  const Desk desk;
  std::string text;
  for (const char* layout : {"flex", "fa4", "flashmask", "magi", "bsr", "cu-seqlens"}) {
    for (const char* mask : {"sliding:left=2,right=0", "document:lengths=4+8,causal=true"}) {
      const std::string as = std::string(" --seq 12 --tile-q 2 --tile-kv 2 --as ") + layout;
      text += said("export --mask " + std::string(mask) + as + " -o mask.json") + "\n";
      if (!std::filesystem::exists("mask.json")) continue;
      text += said("show --mask-file mask.json --tile-q 2 --tile-kv 2 --width 60") + "\n";
      text += said("show --mask-file mask.json --tile-q 4 --tile-kv 3 --json") + "\n";
      std::filesystem::remove("mask.json");
    }
  }
  CHECK(test::golden_difference("cli-masks.txt", text) == "");
}

TEST_CASE("what block and overlap print is as kept") {
  const Desk desk;
  CHECK(test::golden_difference(
            "cli-block.txt",
            all_said({
                "block --model llama3-8b --seq 4096 --machine $h200",
                "block --model llama3-8b --seq 4096 --machine $h200 --speedup 1.2",
                "block --model mixtral-8x7b --seq 8192 --batch 2 --machine $h200 --width 60",
                "block --model sam-h --machine $h200 --json",
                "block --model mistral-7b --machine $h200 --attn-bwd-ms 5 --new-attn-bwd-ms 4",
                "block --model llama3-8b --seq 2048 --machine $h200 --schedule spt",
                "block --model sam-h --machine $h200 --design split",
                "block --model llama3-8b --seq 4096 --machine $h200 --block-ms 9 --overlap",
                "block --model qwen2.5-7b --machine $h200 --ops compiled --kappa 3",
                "block --model llama3-8b --seq 2048 --machine $h200 --norms fp32 --tp 2",
                "block --model llama3-8c --machine $h200",
                "overlap --heads 64 --seq 4096",
                "overlap --heads 64 --seq 4096 --calibration h200-fa2 --pass both",
                "overlap --heads 48 --seq 16384 --philox 10 --bits 32 --json",
                "overlap --sweep seq=2048:8192,heads=48,96 --calibration paper",
                "overlap --sweep seq=2048:8192,heads=48,96 --json",
                "overlap --heads 8 --seq 2048 --philox 3 --dropout 0.2 --layers 4 --room 1.1 "
                "--gemm-tflops 700 --attn-tflops 500 --calibration h200-cudnn",
                "overlap --x 148 --expect 'speedup > 1.3'",
                "overlap --x 148 --json",
                "overlap --heads 64 --seq 4096 --width 40",
                "overlap --heads 64 --seq 4096 --gemm-tflops 2e9",
                "overlap --heads 64 --seq 4096 --gemm-tflops 0",
                "overlap --heads 64 --seq 4096 --pass both --json",
                "overlap --sweep seq=2048:8192,heads=48,96 --pass both --json",
                "overlap --heads 64",
            })) == "");
}

}  // namespace
}  // namespace stagger::cli
