#include <catch2/catch.hpp>

#include <set>

#include "io/architecture_reader.hpp"
#include "io/report_parts.hpp"

using namespace tessera;

TEST_CASE("short names are unique whatever keys a grid opens", "[report]") {
  const auto name = [](const std::string& spec) { return reporting::short_name(read_architecture(spec)); };
  CHECK(name("ladder:q=12,experts=96,top_k=2,split=4") == "q12 E96 K2 G4");
  CHECK(name("ladder:q=8,experts=0") == "q8 dense");
  CHECK(name("ladder:q=12,experts=96,top_k=2,split=4,layers_per_rung=6,tied=true") == "q12 E96 K2 G4 layers=q*6 tied=true");
  CHECK(name("ladder:q=12,experts=96,top_k=2,split=2.5") == "q12 E96 K2 G2.5");
  CHECK(name("ladder:q=12,experts=96,top_k=2,split=4,window=4096,window_share=0.5") == "q12 E96 K2 G4 window=4096 window_share=0.5");
  CHECK(name("mixtral_8x7b") == "mixtral_8x7b");
  CHECK(name("ladder_q12") == "ladder_q12");
  CHECK(name("mixtral_8x7b,experts=16") == "mixtral_8x7b,experts=16");

  std::set<std::string> names;
  std::size_t made = 0;
  const std::string base = "ladder:q=12,experts=96,top_k=2,split=4";
  for (const char* more : {"", ",layers_per_rung=3", ",heads_per_rung=6", ",ffn_ratio=3", ",head_dim=64", ",kv_heads=4", ",vocabulary=32000", ",shared_experts=2",
                           ",dense_layers=2", ",tied=true", ",layers_per_rung=2,heads_per_rung=6", ",layers_per_rung=6,heads_per_rung=2"}) {
    names.insert(name(base + more));
    ++made;
  }
  CHECK(names.size() == made);
}
