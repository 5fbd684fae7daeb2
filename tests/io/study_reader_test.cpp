// Study files: what they give, and what they refuse with file, line and key.
#include "io/study_reader.hpp"

#include <catch2/catch.hpp>

#include "tessera/error.hpp"
#include "tessera/space.hpp"

using namespace tessera;

namespace {

const std::string kPaper = R"(title = "The paper's envelope"
[cluster]
preset = "p6-b200"
nodes = [32]
memory_cap = "179 GiB"
[window]
days = [20]
goodput = 1.0
[batch]
global = [1024]
sequence = 2048
[architecture]
family = "ladder"
q = [8, 10, 12, 14, 16, 18]
experts = [4, 6, 8, 16, 24, 32, 48, 96, 128, 192, 256, 384, 512]
top_k = [1, 2, 4, 6, 8]
split = [1, 2, 4, 8]
vocabulary = 257536
min_sparsity = 0.7
[plan]
tp = "all"
etp = [1]
virtual_stages = [1]
micro_batch = [1, 2, 4]
recompute = ["none", "selective", "super-selective", "full"]
zero = [1]
schedule = ["1f1b"]
folding = false
precision = ["bf16"]
optimizer = "adam"
[law]
name = "mosaic"
tokens_per_active_parameter = [40, 150]
[output]
top = 100
)";

/// The study with one line replaced or, where it does not occur, an error of the test.
std::string with(const std::string& line, const std::string& other) {
  std::string text = kPaper;
  const std::size_t at = text.find(line + "\n");
  REQUIRE(at != std::string::npos);
  return text.replace(at, line.size(), other);
}

Study read(const std::string& text, const StudyOverrides& overrides = {}) { return read_study_text(text, "s.toml", overrides); }

}  // namespace

TEST_CASE("the paper's study", "[study]") {
  const Study s = read(kPaper);
  CHECK(s.title == "The paper's envelope");
  CHECK(s.architectures.size() == 1092);
  CHECK(s.counts.size() == 1092);
  REQUIRE(s.clusters.size() == 1);
  CHECK(s.clusters[0].devices == 256);
  CHECK(s.clusters[0].memory_cap == Approx(179.0 * 1024 * 1024 * 1024).epsilon(1e-3));
  CHECK_FALSE(s.clusters[0].stack.folding);
  CHECK(s.days == std::vector<double>{20});
  CHECK(s.batches == std::vector<std::int64_t>{1024});
  CHECK(s.sequence == 2048);
  CHECK_FALSE(s.plan.tp.values.has_value());
  CHECK(s.plan.micro_batch.values == std::vector<int>{1, 2, 4});
  CHECK(s.plan.recompute.values->size() == 4);
  CHECK(s.law.name == "mosaic");
  CHECK(s.token_bounds.low == 40);
  CHECK(s.token_bounds.high == 150);
  CHECK(s.top == 100);
  CHECK(s.record == Record::all);
  for (const auto& a : s.architectures) CHECK(a.top_k < a.experts);
  for (const auto& n : s.counts) CHECK(n.sparsity() >= 0.7);
}

TEST_CASE("lists and scalars, nodes and devices, several clusters", "[study]") {
  CHECK(read(with("nodes = [32]", "nodes = 32")).clusters[0].devices == 256);
  CHECK(read(with("nodes = [32]", "devices = [96, 128]")).clusters[1].devices == 128);
  const Study two = read(with("preset = \"p6-b200\"", "preset = [\"p6-b200\", \"p5\"]"));
  REQUIRE(two.clusters.size() == 2);
  CHECK(two.clusters[1].memory_cap == two.clusters[1].device.capacity);  // a cap never adds memory
  CHECK(read(with("days = [20]", "days = [40, 10, 20]")).days == std::vector<double>{10, 20, 40});
  CHECK(study_hash(read(kPaper)) == study_hash(read(with("nodes = [32]", "nodes = 32  # one size"))));
  CHECK(study_hash(read(kPaper)) != study_hash(read(with("nodes = [32]", "nodes = 16"))));
}

TEST_CASE("families and models", "[study]") {
  const std::string head = kPaper.substr(0, kPaper.find("[architecture]")), tail = kPaper.substr(kPaper.find("[plan]"));
  CHECK(read(head + "[architecture]\nmodels = [\"mixtral_8x7b\", \"ladder:q=8,experts=32,top_k=2,split=4\", \"mixtral_8x7b\"]\n" + tail).architectures.size() == 2);
  const Study dense = read(head + "[architecture]\nfamily = \"dense\"\nq = [4, 8]\n" + tail);
  REQUIRE(dense.architectures.size() == 2);
  CHECK_FALSE(dense.architectures[0].is_moe());
  const Study moe = read(head + "[architecture]\nfamily = \"moe\"\nlayers = [8, 16]\nhidden = 1024\nheads = 8\nexperts = [4, 8]\ntop_k = [2, 4]\nexpert_ffn = 512\nvocabulary = 32000\n" + tail);
  CHECK(moe.architectures.size() == 6);  // 8 combinations without the two of top_k 4 of 4 experts
  const Study both = read(head + "[[architecture]]\nfamily = \"dense\"\nq = 4\n[[architecture]]\nmodels = \"mixtral_8x7b\"\n" + tail);
  CHECK(both.architectures.size() == 2);
  const Study guarded = read(with("min_sparsity = 0.7", "min_sparsity = 0.7\nmax_total_parameters = 1e11\nmax_active_parameters = 1e10"));
  REQUIRE(guarded.architectures.size() < 1092);
  for (const auto& n : guarded.counts) CHECK((n.non_embedding_total <= 1e11 && n.non_embedding_active <= 1e10));
}

TEST_CASE("the command line's changes are part of the study and of its source", "[study]") {
  StudyOverrides o;
  o.fix = {"tp=2,4", "schedule=1f1b"};
  o.forbid = {"recompute=full", "pp=16"};
  o.nodes = {16};
  o.days = {5, 2.5};
  o.top = 7;
  o.record = Record::best;
  o.search = Search::pruned;
  const Study s = read(kPaper, o);
  CHECK(s.plan.tp.values == std::vector<int>{2, 4});
  CHECK(s.plan.recompute.forbidden == std::vector<Recompute>{Recompute::full});
  CHECK(s.plan.pp.forbidden == std::vector<int>{16});
  CHECK(s.clusters[0].devices == 128);
  CHECK(s.days == std::vector<double>{2.5, 5});
  CHECK(s.top == 7);
  CHECK(s.source.substr(0, kPaper.size()) == kPaper);
  const Study again = restore_study(s.source, "source");
  CHECK(again.source == s.source);
  CHECK(study_hash(again) == study_hash(s));
  CHECK(again.days == s.days);
  CHECK(again.record == Record::best);
  CHECK(again.search == Search::pruned);
  CHECK(study_hash(s) != study_hash(read(kPaper)));
  for (const char* bad : {"tp", "tp=", "tq=2", "tp=x", "tp=0", "tp=-1", "schedule=2f2b"}) {
    INFO(bad);
    StudyOverrides wrong;
    wrong.fix = {bad};
    CHECK_THROWS_AS(read(kPaper, wrong), InputError);
  }
}

TEST_CASE("a mistake is named with file, line and key", "[study]") {
  CHECK_THROWS_WITH(read(with("nodes = [32]", "nodse = [32]")), Catch::Contains("s.toml:4") && Catch::Contains("cluster.nod"));
  CHECK_THROWS_WITH(read(with("min_sparsity = 0.7", "min_sparsty = 0.7")), Catch::Contains("s.toml:19") && Catch::Contains("'min_sparsity'"));
  CHECK_THROWS_WITH(read(with("[plan]", "[paln]")), Catch::Contains("'plan'"));
  CHECK_THROWS_WITH(read(with("preset = \"p6-b200\"", "preset = \"p6-b20\"")), Catch::Contains("s.toml:3") && Catch::Contains("p6-b200"));
  CHECK_THROWS_WITH(read(with("name = \"mosaic\"", "name = \"mosaik\"")), Catch::Contains("law.name") && Catch::Contains("mosaic"));
  CHECK_THROWS_WITH(read(with("schedule = [\"1f1b\"]", "schedule = [\"1f2b\"]")), Catch::Contains("plan.schedule") && Catch::Contains("1f1b"));
}

TEST_CASE("values without a meaning are refused", "[study]") {
  const std::pair<const char*, const char*> bad[] = {
      {"nodes = [32]", "nodes = [0]"},
      {"nodes = [32]", "nodes = [-4]"},
      {"nodes = [32]", "nodes = []"},
      {"nodes = [32]", "nodes = \"32\""},
      {"nodes = [32]", "nodes = [1.5]"},
      {"nodes = [32]", "nodes = [1000000000000000000]"},
      {"nodes = [32]", "nodes = [32]\ndevices = [256]"},
      {"nodes = [32]", "#"},
      {"memory_cap = \"179 GiB\"", "memory_cap = \"179 Gib\""},
      {"memory_cap = \"179 GiB\"", "memory_cap = -1"},
      {"memory_cap = \"179 GiB\"", "memory_cap = nan"},
      {"days = [20]", "days = [0]"},
      {"days = [20]", "days = [nan]"},
      {"days = [20]", "days = [inf]"},
      {"days = [20]", "days = \"20\""},
      {"goodput = 1.0", "goodput = 0"},
      {"goodput = 1.0", "goodput = 1.5"},
      {"goodput = 1.0", "goodput = nan"},
      {"global = [1024]", "global = [0]"},
      {"sequence = 2048", "sequence = -1"},
      {"family = \"ladder\"", "family = \"laddr\""},
      {"top_k = [1, 2, 4, 6, 8]", "top_k = [1024]"},
      {"top_k = [1, 2, 4, 6, 8]", "top_k = [0]"},
      {"top_k = [1, 2, 4, 6, 8]", "top_k = [-1]"},
      {"split = [1, 2, 4, 8]", "split = [0]"},
      {"split = [1, 2, 4, 8]", "split = [nan]"},
      {"split = [1, 2, 4, 8]", "split = [7]"},
      {"vocabulary = 257536", "vocabulary = 0"},
      {"min_sparsity = 0.7", "min_sparsity = 1"},
      {"min_sparsity = 0.7", "min_sparsity = 0.9999"},
      {"tp = \"all\"", "tp = \"some\""},
      {"tp = \"all\"", "tp = [0]"},
      {"zero = [1]", "zero = [4]"},
      {"micro_batch = [1, 2, 4]", "micro_batch = []"},
      {"folding = false", "folding = 0"},
      {"precision = [\"bf16\"]", "precision = [\"fp16\"]"},
      {"optimizer = \"adam\"", "optimizer = \"sgd\""},
      {"tokens_per_active_parameter = [40, 150]", "tokens_per_active_parameter = [150, 40]"},
      {"tokens_per_active_parameter = [40, 150]", "tokens_per_active_parameter = [40]"},
      {"top = 100", "top = 0"},
      {"top = 100", "record = \"some\""}};
  for (const auto& [line, other] : bad) {
    INFO(other);
    CHECK_THROWS_AS(read(with(line, other)), InputError);
  }
  for (const char* text : {"", "title = ", "title = 3", "[cluster", "x"}) {
    INFO(text);
    CHECK_THROWS_AS(read(text), InputError);
  }
  CHECK_THROWS_AS(read_study("/nonexistent/study.toml"), InputError);
}

TEST_CASE("terms of a study: spare nodes, planned stops and limits for serving", "[study]") {
  CHECK(read(kPaper).terms == BudgetTerms{});
  std::string text = with("nodes = [32]", "nodes = [32]\nspare_nodes = 2");
  text.replace(text.find("days = [20]"), 11, "days = [20]\nstopped_days = 1.5");
  const std::string serving = "[serving]\nmax_total_parameters = 1e12\nmax_memory = \"640 GB\"\nweights = \"nvfp4\"\ncontext = 32768\nbatch = 8\n";
  const Study s = read(text + serving);
  CHECK(s.terms.spare_nodes == 2);
  CHECK(s.terms.stopped_days == 1.5);
  CHECK(s.terms.serving.most_total == 1e12);
  CHECK_FALSE(s.terms.serving.most_active);
  CHECK(s.terms.serving.most_memory == 640e9);
  CHECK(s.terms.serving.load == ServingLoad{0.5625, 2, 2, 32768, 8});
  CHECK(std::any_of(s.presets.begin(), s.presets.end(), [](const std::string& p) { return p.rfind("serving formats ", 0) == 0; }));
  CHECK(read(kPaper + "[serving]\nmax_memory = 1e12\n").terms.serving.load == ServingLoad{2, 2, 2, 0, 1});
  const auto refused = [](const std::string& wrong, const std::string& key) {
    INFO(wrong);
    try {
      read(wrong);
      FAIL("it was read");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find(key) != std::string::npos);
      CHECK(std::string(error.what()).rfind("s.toml", 0) == 0);
    }
  };
  refused(with("nodes = [32]", "nodes = [32]\nspare_nodes = -1"), "spare_nodes");
  refused(with("days = [20]", "days = [20]\nstopped_days = 20"), "stopped_days");
  for (const auto& [line, key] : {std::pair{"max_memory = \"6 apples\"", "max_memory"}, {"max_active_parameters = 0", "max_active_parameters"},
                                  {"weights = \"fp7\"", "weights"}, {"weights = 17", "weights"}, {"batch = 4", "batch"},
                                  {"context = 0", "context"}, {"contxt = 4", "contxt"}})
    refused(kPaper + "[serving]\n" + line + "\n", std::string("serving.") + key);
}
