// The table of forms: names, expressions and coefficients. The order of coefficients is the order of
// Law::coefficients everywhere.
#include <array>

#include "tessera/law.hpp"

namespace tessera {
namespace {

using K = CoefficientKind;
using A = LawAxis;

constexpr LawAxis kSizeData[] = {A::total, A::tokens};
constexpr LawAxis kSparse[] = {A::total, A::sparsity, A::tokens};
constexpr LawAxis kSparseSplit[] = {A::total, A::sparsity, A::split, A::tokens};
constexpr LawAxis kSplit[] = {A::total, A::split, A::tokens};
constexpr LawAxis kRouted[] = {A::active, A::experts};
constexpr LawAxis kRoutedData[] = {A::active, A::experts, A::tokens};
constexpr LawAxis kShared[] = {A::total, A::active, A::active_experts, A::sparsity, A::tokens};

constexpr CoefficientInfo kMosaic[] = {
    {"a", K::amplitude, "size"},      {"b", K::amplitude, "data"},     {"c", K::amplitude, "sparsity"},
    {"j", K::amplitude, "split"},     {"e", K::constant, "constant"},  {"alpha", K::exponent, "size"},
    {"beta", K::exponent, "data"},    {"lambda", K::exponent, "sparsity"}, {"delta", K::exponent, "split"},
    {"gamma", K::exponent, "split"},  {"eta", K::exponent, "split"}};
constexpr CoefficientInfo kChinchilla[] = {{"E", K::constant, "constant"},
                                           {"A", K::amplitude, "size"},
                                           {"B", K::amplitude, "data"},
                                           {"alpha", K::exponent, "size"},
                                           {"beta", K::exponent, "data"}};
constexpr CoefficientInfo kKaplan[] = {{"aN", K::exponent, "size"},
                                       {"aD", K::exponent, "data"},
                                       {"Nc", K::amplitude, "size"},
                                       {"Dc", K::amplitude, "data"}};
constexpr CoefficientInfo kClark[] = {{"a", K::free, "routed"},       {"b", K::free, "routed"},
                                      {"c", K::free, "routed"},       {"d", K::free, "routed"},
                                      {"Es", K::amplitude, "routed"}, {"Em", K::amplitude, "routed"}};
constexpr CoefficientInfo kGranularity[] = {
    {"a", K::amplitude, "size"}, {"alpha", K::exponent, "size"}, {"b", K::amplitude, "data"},
    {"beta", K::exponent, "data"}, {"g", K::amplitude, "split"}, {"gamma", K::exponent, "split"},
    {"c", K::constant, "constant"}};
constexpr CoefficientInfo kJointMoe[] = {
    {"a", K::amplitude, "size"}, {"alpha", K::free, "size"},  {"delta", K::free, "size"},
    {"gamma", K::free, "size"},  {"b", K::amplitude, "data"}, {"beta", K::free, "data"},
    {"omega", K::free, "data"},  {"zeta", K::free, "data"},   {"Es", K::amplitude, "experts"},
    {"Em", K::amplitude, "experts"}, {"c", K::constant, "constant"}};
constexpr CoefficientInfo kAbnar[] = {
    {"a", K::amplitude, "size"},     {"b", K::amplitude, "data"},    {"c", K::amplitude, "sparsity"},
    {"d", K::amplitude, "interaction"}, {"e", K::constant, "constant"}, {"alpha", K::exponent, "size"},
    {"beta", K::exponent, "data"},   {"lambda", K::free, "sparsity"}, {"delta", K::exponent, "interaction"},
    {"gamma", K::exponent, "interaction"}};
constexpr CoefficientInfo kZhao[] = {
    {"e", K::amplitude, "experts"}, {"f", K::amplitude, "experts"}, {"m", K::free, "experts"},
    {"n", K::free, "experts"},      {"k", K::amplitude, "experts"}, {"h", K::amplitude, "experts"},
    {"a", K::amplitude, "size"},    {"alpha", K::exponent, "size"}, {"b", K::amplitude, "data"},
    {"beta", K::exponent, "data"},  {"c", K::amplitude, "active"},  {"eps", K::constant, "constant"}};
constexpr CoefficientInfo kEfficiencyLeverage[] = {
    {"a", K::free, "leverage"},    {"d", K::free, "leverage"},       {"gamma", K::free, "leverage"},
    {"beta", K::free, "leverage"}, {"As", K::amplitude, "leverage"}, {"Am", K::amplitude, "leverage"}};
constexpr CoefficientInfo kFrantar[] = {
    {"aS", K::amplitude, "sparsity"}, {"bS", K::exponent, "sparsity"}, {"cS", K::amplitude, "size"},
    {"bN", K::exponent, "size"},      {"aD", K::amplitude, "data"},    {"bD", K::exponent, "data"},
    {"c", K::constant, "constant"}};

constexpr std::array<FormInfo, 10> kForms{{
    {LawForm::mosaic, "mosaic", "a/N^alpha + b/D^beta + c/(1-S)^lambda + j/((1-S)^delta N^gamma G^eta) + e", kMosaic, kSparseSplit, true},
    {LawForm::chinchilla, "chinchilla", "E + A/N^alpha + B/D^beta", kChinchilla, kSizeData, true},
    {LawForm::kaplan, "kaplan", "((Nc/N)^(aN/aD) + Dc/D)^aD", kKaplan, kSizeData, true},
    {LawForm::clark, "clark",
     "log10 L = a log10 N + b log10 Eh + c log10 N log10 Eh + d; 1/Eh = 1/(E-1+1/(1/Es-1/Em)) + 1/Em", kClark, kRouted, false},
    {LawForm::granularity, "granularity", "c + (g/G^gamma + a)/N^alpha + b/D^beta", kGranularity, kSplit, true},
    {LawForm::joint_moe, "joint_moe",
     "a Eh^delta N^(alpha+gamma ln Eh) + b Eh^omega D^(beta+zeta ln Eh) + c; Eh as in clark", kJointMoe, kRoutedData, true},
    {LawForm::abnar, "abnar", "a/N^alpha + b/D^beta + c/(1-S)^lambda + d/((1-S)^delta N^gamma) + e", kAbnar, kSparse, true},
    {LawForm::zhao, "zhao",
     "(eG + f/G + mS^2 + nS)(1/N^alpha + k/Na^alpha + h Na/N) + a/N^alpha + b/D^beta + c/Na^alpha + eps", kZhao, kShared, true},
    {LawForm::efficiency_leverage, "efficiency_leverage",
     "EL = Ah^(a + d log10 C + gamma (log2 G)^2 + beta log2 G); 1/Ah = 1/(A+1/(1/As-1/Am)) + 1/Am",
     kEfficiencyLeverage, {}, false},
    {LawForm::frantar, "frantar", "(aS(1-S)^bS + cS) N^-bN + (aD/D)^bD + c", kFrantar, kSparse, true},
}};

constexpr std::string_view kAxes[] = {"total",          "active",            "sparsity",
                                      "tokens",         "split",             "experts",
                                      "active_experts", "tokens_per_active", "experts_per_split"};
static_assert(std::size(kAxes) == static_cast<std::size_t>(LawAxis::count_));

}  // namespace

const FormInfo& form_info(LawForm form) { return kForms[static_cast<std::size_t>(form)]; }
std::span<const FormInfo> all_forms() { return kForms; }

std::optional<LawForm> law_form_from(std::string_view name) {
  for (const auto& info : kForms)
    if (info.name == name) return info.form;
  return std::nullopt;
}

std::string_view to_string(LawAxis axis) { return kAxes[static_cast<std::size_t>(axis)]; }
std::optional<LawAxis> law_axis_from(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kAxes); ++i)
    if (kAxes[i] == name) return static_cast<LawAxis>(i);
  return std::nullopt;
}

}  // namespace tessera
