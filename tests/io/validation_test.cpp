// The accuracy that the documentation states, on the measurements of TESSERA_DATA; tables with faults.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "io/run_fit.hpp"
#include "io/validation.hpp"
#include "tessera/error.hpp"

using namespace tessera;

namespace {

std::string data_file(const std::string& name) {
  const char* folder = std::getenv("TESSERA_DATA");
  const std::string path = (folder && *folder ? std::string(folder) : std::string(TESSERA_SOURCE_DIR) + "/../shared/data") + "/" + name;
  if (std::filesystem::exists(path)) return path;
  WARN("skipped: no measurements at " << path << " (TESSERA_DATA)");
  return "";
}

ErrorSummary summary_of(const Validation& v, bool moe) {
  std::vector<double> errors;
  for (const ScoredRun& s : v.scored)
    if (s.run->seconds && s.run->architecture.is_moe() == moe) errors.push_back(s.error);
  return summarise(errors);
}

MappedRuns map_text(const std::string& text) {
  const Presets presets;
  return RunMapping(presets).map(CsvTable::parse(text, "runs.csv"), {"A", "A-"});
}

const std::string kHeader =
    "row_id,source,framework,model_key,layers,hidden,heads,kv_heads,ffn,vocab,experts,topk,gpu,n_gpus,precision,seq_len,gbs_seq,mbs,tp,pp,step_s,quality\n";

}  // namespace

TEST_CASE("step times and memory of published runs") {
  const std::string path = data_file("measured/runs.csv");
  if (path.empty()) return;
  const Presets presets;
  const MappedRuns runs = RunMapping(presets).map(CsvTable::read(path), {"A", "A-"});
  const Validation v = validate_runs(runs.runs);
  const ErrorSummary dense = summary_of(v, false), moe = summary_of(v, true);
  CHECK(dense.used >= 500);
  CHECK(dense.median_abs_pct <= 3);
  CHECK(dense.mean_abs_pct <= 4);
  CHECK(dense.p90_abs_pct <= 8);
  CHECK(std::abs(dense.bias_pct) <= 1);
  CHECK(moe.used >= 90);
  CHECK(moe.median_abs_pct <= 4.5);
  CHECK(moe.mean_abs_pct <= 6.5);
  CHECK(moe.p90_abs_pct <= 12);
  for (const auto& [device, e] : v.by.at("device"))
    if (e.used >= 20) {
      INFO(device);
      CHECK(std::abs(e.bias_pct) <= 3);
    }
  std::vector<double> allocated, fsdp;
  for (const ScoredRun& s : v.scored) {
    if (s.run->memory_kind == MemoryKind::allocated) allocated.push_back(s.memory_error);
    if (s.run->memory_kind == MemoryKind::reserved && s.run->framework.find("torchtitan") == 0) fsdp.push_back(s.memory_error);
  }
  CHECK(summarise(allocated).median_abs_pct <= 1);
  CHECK(summarise(allocated).mean_abs_pct <= 2);
  CHECK(summarise(fsdp).median_abs_pct <= 3);
  CHECK(summarise(fsdp).mean_abs_pct <= 3.5);
  CHECK(free_constants(runs.runs).size() <= 70);
  CHECK(v.infeasible == 0);
}

TEST_CASE("the paper's own runs") {
  const std::string path = data_file("measured/b200_moe.csv");
  if (path.empty()) return;
  const Presets presets;
  const MappedRuns runs = RunMapping(presets).map(CsvTable::read(path), {"A", "A-"});
  const Validation v = validate_runs(runs.runs);
  CHECK(v.time.used == 20);
  CHECK(v.time.mean_abs_pct <= 6);
}

TEST_CASE("rows that cannot be used are counted with their reason") {
  const MappedRuns runs = map_text(kHeader +
                                   "1,x,Megatron-Core,own,32,4096,32,8,14336,128256,,,H100,8,BF16,4096,64,1,1,1,3.1,A\n"
                                   "2,x,Megatron-Core,own,,,,,,,,,H100,8,BF16,4096,64,1,1,1,3.1,A\n"
                                   "3,x,Megatron-Core,own,32,4096,32,8,14336,128256,,,H100,7,BF16,4096,64,1,2,1,3.1,A\n"
                                   "4,x,Megatron-Core,own,32,4096,32,8,abc,128256,,,H100,8,BF16,4096,64,1,1,1,3.1,A\n"
                                   "5,x,Megatron-Core,own,32,4096,32,8,14336,128256,,,H100,8,BF16,4096,64,1,1,1,nan,A\n"
                                   "6,x,Megatron-Core,own,32,4096,32,8,14336,128256,,,H100,8,BF16,4096,64,1,1,1,3.1,C\n"
                                   "7,x,Megatron-Core,own,-32,4096,32,8,14336,128256,,,H100,8,BF16,4096,64,1,1,1,3.1,A\n");
  REQUIRE(runs.runs.size() == 1);
  CHECK(runs.rows == 7);
  std::size_t skipped = 0;
  for (const auto& [reason, count] : runs.skipped) {
    CHECK_FALSE(reason.empty());
    skipped += count;
  }
  CHECK(skipped == 6);
}

TEST_CASE("an unknown device, fabric and framework get generic presets, and a row's own layers count") {
  const MappedRuns runs = map_text(kHeader +
                                   "1,x,Some new stack,own,32,4096,32,8,14336,128256,,,Zeta-9,8,BF16,4096,64,1,1,1,3.1,A\n"
                                   "2,x,Megatron-Core,llama3_70b,8,8192,64,8,28672,128256,,,H100,8,BF16,4096,64,1,8,1,3.1,A\n");
  REQUIRE(runs.runs.size() == 2);
  CHECK(runs.runs[0].generic);
  CHECK(runs.runs[0].device == "generic");
  CHECK(runs.runs[1].architecture.layers == 8);
  const Validation v = validate_runs(runs.runs);
  CHECK(v.scored[0].cost.expected_error >= 0.15);
  CHECK(v.scored[1].cost.expected_error < v.scored[0].cost.expected_error);
}

TEST_CASE("columns in any order give the same prediction") {
  const MappedRuns a = map_text(kHeader + "1,x,Megatron-Core,own,32,4096,32,8,14336,128256,,,H100,8,BF16,4096,64,1,1,1,3.1,A\n");
  const MappedRuns b = map_text("step_s,quality,mbs,gbs_seq,gpu,n_gpus,seq_len,precision,vocab,ffn,kv_heads,heads,hidden,layers,model_key,framework,source\n"
                                "3.1,A,1,64,H100,8,4096,BF16,128256,14336,8,32,4096,32,own,Megatron-Core,x\n");
  REQUIRE(a.runs.size() == 1);
  REQUIRE(b.runs.size() == 1);
  CHECK(predict_seconds(a.runs[0]) == predict_seconds(b.runs[0]));
}

TEST_CASE("nonsense in a cell is a reason, never a wrong number") {
  const std::string start = "1,x,Megatron-Core,own,32,4096,32,8,14336,128256,,,H100,";
  const auto reason = [&](const std::string& rest) {
    const MappedRuns runs = map_text(kHeader + start + rest + "\n");
    return runs.skipped.empty() ? std::string() : runs.skipped.front().first;
  };
  CHECK(reason("8,BF16,4096,64,1,1,1,3.1,A") == "");
  CHECK(reason("8,BF16,4096,64,1,1,1,-3.1,A") == "step time is not a positive number");
  CHECK(reason("8,BF16,4096,64,1,1,1,soon,A") == "step time is not a positive number");
  CHECK(reason("8,BF16,4096,64,1,1,1,1e400,A") == "step time is not a positive number");
  CHECK(reason("8,BF16,4096,64,1,1,1,0.001,A") == "faster than the peak of the device");
  CHECK(reason("8,BF16,4096,64,1,4294967297,1,3.1,A") == "tp is beyond any cluster");
  CHECK(reason("8,BF16,4096,64,0x1,1,1,3.1,A") == "micro-batch is not a number");
  CHECK(reason("8,BF16,4096,64,1.5,1,1,3.1,A") == "micro-batch is not a positive whole number");
  CHECK(reason("1e18,BF16,4096,64,1,1,1,3.1,A") == "n_gpus is not a positive whole number");
}

TEST_CASE("tables of any line ending, and those that lack the device, are told apart") {
  std::string text = kHeader + "1,x,Megatron-Core,own,32,4096,32,8,14336,128256,,,H100,8,BF16,4096,64,1,1,1,3.1,A\n";
  std::replace(text.begin(), text.end(), '\n', '\r');
  CHECK(map_text(text).runs.size() == 1);
  const CsvTable wrong = CsvTable::parse("gpu;n_gpus\nH100;8\n", "runs.csv");
  CHECK_THROWS_WITH(wrong.require({"gpu"}, "runs.csv", "it is needed"), Catch::Contains("'gpu' is missing") && Catch::Contains("gpu;n_gpus") && Catch::Contains("commas"));
}
