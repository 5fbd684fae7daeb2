// Architectures from presets, files and keys on the spot; every public model's published counts.
#include "io/architecture_reader.hpp"

#include <cstdlib>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "tessera/error.hpp"

using namespace tessera;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

fs::path data_folder() {
  const char* given = std::getenv("TESSERA_DATA");
  return given ? fs::path(given) : fs::path(TESSERA_SOURCE_DIR) / ".." / "shared" / "data";
}

/// Fields of one CSV line; quotes protect commas, "" is a quote.
std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') out.back() += line[++i];
    else if (line[i] == '"') quoted = !quoted;
    else if (line[i] == ',' && !quoted) out.emplace_back();
    else if (line[i] != '\r') out.back() += line[i];
  }
  return out;
}

std::vector<std::map<std::string, std::string>> models() {
  std::vector<std::map<std::string, std::string>> rows;
  std::ifstream file(data_folder() / "models" / "models.csv");
  std::string line;
  if (!std::getline(file, line)) return rows;
  const auto head = csv_fields(line);
  while (std::getline(file, line)) {
    const auto fields = csv_fields(line);
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < head.size() && i < fields.size(); ++i) row[head[i]] = fields[i];
    rows.push_back(row);
  }
  return rows;
}

class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& text) : path_(fs::temp_directory_path() / ("tessera-" + std::to_string(::getpid()) + "-" + name)) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { fs::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("every row of the table of public models is a preset with exactly its counts", "[architecture][data]") {
  const auto rows = models();
  if (rows.empty()) {
    std::cout << "skipped: no models.csv below " << data_folder() << "\n";
    return;
  }
  REQUIRE(rows.size() == 31);
  const auto names = architecture_names();
  int counted = 0;
  for (auto row : rows) {
    INFO(row["model_key"]);
    REQUIRE(std::count(names.begin(), names.end(), row["model_key"]) == 1);
    const Architecture a = read_architecture(row["model_key"]);
    const auto same = [&](const char* column, std::int64_t value) {
      INFO(column);
      if (!row[column].empty()) CHECK(std::stoll(row[column]) == value);
    };
    same("layers", a.layers);
    same("hidden", a.hidden);
    same("heads", a.heads);
    same("kv_heads", a.kv_heads);
    same("q_lora", a.q_lora);
    same("kv_lora", a.kv_lora);
    same("qk_nope", a.qk_nope);
    same("qk_rope", a.qk_rope);
    same("v_head", a.v_head);
    if (a.attention == AttentionKind::gqa) same("head_dim", a.head_dim);
    same("dense_ffn", a.dense_ffn);
    same("experts", a.experts);
    same("topk", a.top_k);
    same("moe_ffn", a.expert_ffn);
    same("shared_ffn_total", a.shared_ffn);
    if (a.is_moe() && a.pattern.empty()) same("dense_layers", a.layers - a.moe_layer_count());
    same("vocab", a.vocabulary);
    CHECK((row["tied_embeddings"] == "true") == a.tied);
    CHECK_FALSE(a.source.empty());
    if (row["calc_total"].empty()) continue;
    const ParameterCount n = count_parameters(a);
    same("calc_total", n.all_total);
    same("calc_active", n.all_active);
    same("calc_active_no_embed", n.all_active_without_embedding_and_head);
    ++counted;
  }
  CHECK(counted == 19);  // rows with calc_* figures
}

TEST_CASE("totals of published checkpoints", "[architecture]") {
  // Totals of the safetensors indices on the models' pages.
  const std::pair<const char*, std::int64_t> totals[] = {
      {"llama3_8b", 8030261248},         {"llama3_70b", 70553706496},       {"llama3_405b", 405853388800},      {"mixtral_8x7b", 46702792704},
      {"mixtral_8x22b", 140620634112},   {"qwen3_30b_a3b", 30532122624},    {"qwen3_235b_a22b", 235093634560},  {"gpt_oss_20b", 20914757184},
      {"dbrx", 131596523520},            {"deepseek_v2_lite", 15706484224}, {"olmoe_1b_7b", 6919161856}};
  for (const auto& [name, total] : totals) {
    INFO(name);
    CHECK(count_parameters(read_architecture(name)).all_total == total);
  }
  // Named by their publisher in billions: 31.6 with 3.6 active, 389 with 52 active.
  CHECK(std::llround(static_cast<double>(count_parameters(read_architecture("nemotron_3_nano")).all_total) / 1e8) == 316);
  CHECK(std::llround(static_cast<double>(count_parameters(read_architecture("nemotron_3_nano")).all_active) / 1e8) == 36);
  CHECK(std::llround(static_cast<double>(count_parameters(read_architecture("hunyuan_large")).all_total) / 1e9) == 389);
}

TEST_CASE("presets say what they leave out", "[architecture]") {
  for (const char* name : {"llama4_scout", "llama4_maverick"}) CHECK_THAT(read_architecture(name).left_out, Contains("vision"));
  CHECK_THAT(read_architecture("deepseek_v3").left_out, Contains("multi-token"));
  CHECK_THAT(read_architecture("nemotron_3_nano").left_out, Contains("state-space"));
  CHECK(read_architecture("mixtral_8x7b").left_out.empty());
}

TEST_CASE("the ladder on the spot is not the measured rung of the same number", "[architecture]") {
  const Architecture spot = read_architecture("ladder:q=12,experts=96,top_k=2,split=4");
  LadderRung rung;
  rung.q = 12, rung.experts = 96, rung.top_k = 2, rung.split = 4;
  CHECK(spot == ladder(rung));
  CHECK(spot.vocabulary == 257536);
  CHECK(spot.dense_layers == 1);
  CHECK(spot.shared_ffn == 3840);
  const Architecture measured = read_architecture("ladder_q4");
  CHECK(measured.vocabulary == 257540);
  CHECK(measured.kv_heads == 16);
  CHECK(measured.shared_ffn == 0);
  CHECK(measured.rung == 4);
  CHECK(measured.split == 4);
  CHECK(read_architecture("ladder_q8").tied);
  CHECK(read_architecture("ladder:q=8,vocabulary=1000,shared_experts=0,dense_layers=0,kv_heads=4,tied=true").moe_layer_count() == 32);
  CHECK(read_architecture("ladder:q=8,window=1024,window_share=0.5").window == 1024);
}

TEST_CASE("the name of a rung is the spec that makes it again", "[architecture]") {
  LadderRung usual;
  CHECK(ladder(usual).name == "ladder:q=12,experts=96,top_k=2,split=4");
  std::vector<LadderRung> rungs(12, usual);
  rungs[0].experts = 0;
  rungs[1].split = 2.5;
  rungs[2].vocabulary = 1000;
  rungs[3].kv_heads = 4;
  rungs[4].shared_experts = 0;
  rungs[5].dense_layers = 0;
  rungs[6].head_dim = 64;
  rungs[7].layers_per_rung = 2.5;
  rungs[8].heads_per_rung = 2;
  rungs[9].ffn_ratio = 3.25;
  rungs[10].tied = true;
  rungs[11].q = 8, rungs[11].top_k = 6, rungs[11].tied = true, rungs[11].ffn_ratio = 4;
  std::vector<std::string> names;
  for (const LadderRung& rung : rungs) {
    const Architecture a = ladder(rung);
    INFO(a.name);
    CHECK(read_architecture(a.name) == a);
    CHECK(std::count(names.begin(), names.end(), a.name) == 0);
    names.push_back(a.name);
  }
}

TEST_CASE("keys on top of a preset or from nothing", "[architecture]") {
  const Architecture more = read_architecture("mixtral_8x7b,experts=16,top_k=4");
  CHECK(more.experts == 16);
  CHECK(more.top_k == 4);
  CHECK(more.hidden == 4096);
  CHECK(more.name == "mixtral_8x7b,experts=16,top_k=4");
  const Architecture narrow = read_architecture("ladder_q12,expert_ffn=1920,shared_ffn=1920");
  CHECK(narrow.split == 8);  // follows the widths

  const Architecture dense = read_architecture("dense:layers=32,hidden=4096,heads=32,kv_heads=8,dense_ffn=14336,vocabulary=128256");
  CHECK(count_parameters(dense).all_total == 8030261248);
  const Architecture mha = read_architecture("dense:layers=2,hidden=64,heads=4,dense_ffn=128,vocabulary=100");
  CHECK(mha.kv_heads == 4);
  CHECK(mha.head_dim == 16);
  const Architecture moe = read_architecture("moe:layers=2,hidden=64,heads=4,experts=8,top_k=2,expert_ffn=32,vocabulary=100,qk_norm=per_head,norm=layer,tied=true");
  CHECK(moe.qk_norm == QkNorm::per_head);
  CHECK(moe.norm == NormKind::layer);
  CHECK(moe.tied);
  CHECK(moe.split == 5);
}

TEST_CASE("every field can be set by its key and is in the JSON", "[architecture]") {
  const Architecture a = read_architecture("deepseek_v3");
  const auto json = architecture_json(a);
  for (const auto& field : architecture_fields()) {
    INFO(field.key);
    const std::string key = field.key == "rung" ? "q" : std::string(field.key);
    REQUIRE(json.contains(key));
    Architecture copy = a;
    const auto& value = json[key];
    set_field(copy, field, value.is_string() ? value.get<std::string>() : value.dump(), "test");
    CHECK(copy == a);
  }
  CHECK(json["name"] == "deepseek_v3");
  CHECK(json["attention"] == "mla");
  CHECK(json.size() == architecture_fields().size() + 1);
}

TEST_CASE("a TOML file: explicit, ladder, and back through JSON's keys", "[architecture]") {
  for (const auto& name : architecture_names()) {  // presets written out and read back are the same
    const Architecture a = read_architecture(name);
    std::ostringstream text;
    text << "name = \"" << name << "\"\n";
    const auto json = architecture_json(a);
    for (const auto& [key, value] : json.items())
      if (key != "name") text << (key == "q" ? "rung" : key) << " = " << value.dump() << "\n";
    const TemporaryFile file("back.toml", text.str());
    CHECK(read_architecture(file.path()) == a);
  }
  const TemporaryFile rung("rung.toml", "family = \"ladder\"\nq = 10\nexperts = 32\ntop_k = 2\nsplit = 4\n");
  CHECK(read_architecture(rung.path()) == read_architecture("ladder:q=10,experts=32,top_k=2,split=4"));
  CHECK(read_architecture(rung.path() + ",window=512,window_share=1").window == 512);
}

TEST_CASE("bad specs say what and why", "[architecture][bad]") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "empty"},
      {"mixtral_8x7", "did you mean 'mixtral_8x7b'"},
      {"glm", "did you mean 'glm_45' or 'glm_45_air'?"},
      {"no/such/file.toml", "no such file"},
      {"no/such/config.json", "no such file"},
      {"experts=4", "no base"},
      {",experts=4", "no base"},
      {"mixtral_8x7b,experts", "neither a preset"},
      {"mixtral_8x7b,experts=", "key=value"},
      {"mixtral_8x7b,expert=4", "did you mean 'experts'"},
      {"mixtral_8x7b,experts=4,experts=8", "given twice"},
      {"mixtral_8x7b,experts=4.5", "not a whole number"},
      {"mixtral_8x7b,experts=nan", "not a whole number"},
      {"mixtral_8x7b,experts=-4", "experts = -4"},
      {"mixtral_8x7b,top_k=9", "top_k = 9"},
      {"mixtral_8x7b,hidden=0", "hidden = 0"},
      {"mixtral_8x7b,hidden=1000000000000000000", "2^40"},
      {"mixtral_8x7b,hidden=1000000000000000000000", "2^40"},
      {"mixtral_8x7b,tied=maybe", "neither true nor false"},
      {"mixtral_8x7b,attention=mqa", "gqa, mla"},
      {"mixtral_8x7b,window_share=nan", "not a finite number"},
      {"ladder_q12,split=8", "change expert_ffn"},
      {"ladder:", "no keys"},
      {"ladder:experts=4", "no q"},
      {"ladder:q=12,expert=4", "did you mean 'experts'"},
      {"ladder:q=12,top_k=97", "top_k = 97"},
      {"ladder:q=-1", "q = -1"},
      {"ladder:q=12,split=0", "ladder: expert_ffn"},
      {"ladder:q=12,split=inf", "not a finite number"},
      {"dense:layers=2,hidden=64,heads=4,dense_ffn=8", "no vocabulary"},
      {"dense:layers=2,hidden=64,heads=4,vocabulary=9,experts=4", "moe:"},
      {"moe:layers=2,hidden=64,heads=4,vocabulary=9,dense_ffn=8", "no experts"},
      {"dense:layers=2,hidden=65,heads=4,vocabulary=9,dense_ffn=8", "head_dim"},
      {"dense:layers=2,hidden=64,heads=4,vocabulary=9", "dense_ffn"},
  };
  for (const auto& [spec, message] : cases) {
    INFO(spec);
    CHECK_THROWS_AS(read_architecture(spec), InputError);
    CHECK_THROWS_WITH(read_architecture(spec), Contains(message));
  }
}

TEST_CASE("bad files say file, line and key", "[architecture][bad]") {
  const std::string good = "layers = 2\nhidden = 64\nheads = 4\ndense_ffn = 8\nvocabulary = 9\n";
  struct Case {
    std::string text, message;
  };
  const Case cases[] = {
      {"", "empty"},
      {std::string("layers\0=2", 9), "zero bytes"},
      {"layers = ", "not valid TOML"},
      {good + "experst = 4\n", ":6: experst"},
      {good + "qkv_bias = 1\n", ":6: qkv_bias"},
      {good + "window_share = nan\n", ":6: window_share"},
      {"layers = 2\nhidden = \"64\"\nheads = 4\nvocabulary = 9\n", ":2: hidden"},
      {"layers = 2\nheads = 4\nvocabulary = 9\n", "hidden"},
      {"family = \"ladder\"\nexperts = 4\n", "q"},
      {"family = \"leiter\"\n", "did you mean 'ladder'"},
  };
  for (const Case& each : cases) {
    const TemporaryFile file("bad.toml", each.text);
    INFO(each.text);
    CHECK_THROWS_AS(read_architecture(file.path()), InputError);
    CHECK_THROWS_WITH(read_architecture(file.path()), Contains(each.message));
  }
}
