// Random numbers by counter and the ensembles drawn with them: a draw depends on its counter only, so that the
// order, the number and the threads of candidates and members change nothing.
#include <algorithm>
#include <cmath>

#include "tessera/error.hpp"
#include "tessera/uncertainty.hpp"

namespace tessera {

std::uint64_t splitmix64(std::uint64_t x) {
  std::uint64_t z = x + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

double uniform_draw(std::uint64_t seed, DrawStream stream, std::uint64_t member, std::uint64_t replicate,
                    std::uint64_t key) {
  std::uint64_t hash = seed;
  for (const std::uint64_t word : {static_cast<std::uint64_t>(stream), member, replicate, key}) hash = splitmix64(hash ^ word);
  return (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
}

double normal_draw(std::uint64_t seed, DrawStream stream, std::uint64_t member, std::uint64_t replicate,
                   std::uint64_t key) {
  return normal_quantile(uniform_draw(seed, stream, member, replicate, key));
}

double normal_quantile(double u) {
  // Wichura 1988, algorithm AS 241, PPND16: rational approximations of degree 7 in three regions.
  const double q = u - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q *
           (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r +
                4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r +
             1.3314166789178437745e2) * r + 3.3871328727963666080e0) /
           (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r +
                2.1213794301586595867e4) * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r +
             4.2313330701600911252e1) * r + 1.0);
  }
  double r = std::sqrt(-std::log(q < 0 ? u : 1 - u)), value;
  if (r <= 5) {
    r -= 1.6;
    value = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r +
                 1.27045825245236838258e0) * r + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r +
              4.63033784615654529590e0) * r + 1.42343711074968357734e0) /
            (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r +
                 1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r +
              2.05319162663775882187e0) * r + 1.0);
  } else {
    r -= 5;
    value = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r +
                 2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r +
              5.46378491116411436990e0) * r + 6.65790464350110377720e0) /
            (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r +
                 7.86869131145613259100e-4) * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r +
              5.99832206555887937690e-1) * r + 1.0);
  }
  return q < 0 ? -value : value;
}

namespace {

constexpr std::size_t kCoordinates = 11;
// Order of the mosaic form's coefficients.
enum Mosaic { kA, kB, kC, kJ, kE, kAlpha, kBeta, kLambda, kDelta, kGamma, kEta };

/// Natural logs of the reference point: N, D, 1 - S, G.
struct Reference {
  double total, tokens, open, split;
  explicit Reference(const LevelSlope& at)
      : total(std::log(at.total)), tokens(std::log(at.tokens)), open(std::log1p(-at.sparsity)), split(std::log(at.split)) {}
};

}  // namespace

std::optional<std::array<double, 11>> to_level_slope(std::span<const double> c, const LevelSlope& at) {
  const Reference x(at);
  const double t1 = c[kA] * std::exp(-c[kAlpha] * x.total), t2 = c[kB] * std::exp(-c[kBeta] * x.tokens),
               t3 = c[kC] * std::exp(-c[kLambda] * x.open),
               t4 = c[kJ] * std::exp(-c[kDelta] * x.open - c[kGamma] * x.total - c[kEta] * x.split);
  const std::array<double, kCoordinates> u{t1 + t2 + t3 + t4 + c[kE],
                                           std::log(c[kAlpha] * t1 + c[kGamma] * t4),
                                           std::log(c[kBeta] * t2),
                                           std::log(c[kLambda] * t3 + c[kDelta] * t4),
                                           std::log(c[kEta] * t4),
                                           std::log(c[kAlpha]),
                                           std::log(c[kBeta]),
                                           std::log(c[kLambda]),
                                           std::log(c[kDelta]),
                                           std::log(c[kGamma]),
                                           std::log(c[kEta])};
  for (const double value : u)
    if (!std::isfinite(value)) return std::nullopt;
  return u;
}

std::optional<std::vector<double>> from_level_slope(const std::array<double, 11>& u, const LevelSlope& at) {
  const Reference x(at);
  const double alpha = std::exp(u[5]), beta = std::exp(u[6]), lambda = std::exp(u[7]), delta = std::exp(u[8]),
               gamma = std::exp(u[9]), eta = std::exp(u[10]);
  const double t4 = std::exp(u[4]) / eta, t2 = std::exp(u[2]) / beta, t3 = (std::exp(u[3]) - delta * t4) / lambda,
               t1 = (std::exp(u[1]) - gamma * t4) / alpha, e = u[0] - t1 - t2 - t3 - t4;
  if (!(t1 > 0) || !(t3 > 0) || !(e > 0)) return std::nullopt;
  std::vector<double> c{t1 * std::exp(alpha * x.total),
                        t2 * std::exp(beta * x.tokens),
                        t3 * std::exp(lambda * x.open),
                        t4 * std::exp(delta * x.open + gamma * x.total + eta * x.split),
                        e,
                        alpha,
                        beta,
                        lambda,
                        delta,
                        gamma,
                        eta};
  for (const double value : c)
    if (!std::isfinite(value)) return std::nullopt;
  return c;
}

Members ensemble_members(const Law& law, std::size_t count, std::uint64_t seed) {
  if (!law.members.empty())
    return Members(law.members.begin(), law.members.begin() + std::min(count, law.members.size()));
  if (!law.level_slope) return {law.coefficients};
  const auto mean = to_level_slope(law.coefficients, *law.level_slope);
  if (!mean)
    throw InputError("law '" + law.name + "' has no level/slope coordinates", "a slope or exponent is not positive",
                     "leave its ensemble out.");
  Members out;
  for (std::size_t m = 0; m < count; ++m) {
    // About one draw in a hundred has no positive amplitudes; the next replicate takes its place.
    for (std::uint64_t attempt = 0; out.size() == m; ++attempt) {
      if (attempt == 1000)
        throw InputError("law '" + law.name + "': its ensemble has no valid member", "1000 draws gave none with positive amplitudes",
                         "correct [level_slope].");
      std::array<double, kCoordinates> z, u = *mean;
      for (std::size_t k = 0; k < kCoordinates; ++k) z[k] = normal_draw(seed, DrawStream::level_slope, m, attempt, k);
      for (std::size_t row = 0, at = 0; row < kCoordinates; ++row)
        for (std::size_t column = 0; column <= row; ++column, ++at) u[row] += law.level_slope->cholesky[at] * z[column];
      if (auto member = from_level_slope(u, *law.level_slope)) out.push_back(std::move(*member));
    }
  }
  return out;
}

}  // namespace tessera
