// SPDX-License-Identifier: Apache-2.0
// How much of each bound correct arithmetic uses: the measurement behind the thresholds.
//   tightness [seeds] [largest k]    every model, family and format, small outputs: what docs/numerics.md section 4 prints
//   tightness tail [seeds]           the far tail of the worst model: sequential sums, k = 512, 1024 outputs per seed
#include "../tests/reference/tightness.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace assay;

namespace {

struct Row {
  double hard = 0, iid = 0, rms = 0, rounding = 0, small_rms = 0, bias = 0;
  std::int64_t sums = 0, bad = 0, over_iid = 0, alarms = 0, biased = 0;
};

struct Shape {
  std::int64_t m, n;
};
constexpr Shape shapes[] = {{1, 1}, {1, 16}, {16, 1}, {2, 2}, {8, 8}, {16, 16}};

struct Scalars {
  double alpha, beta;
  bool addend_first;
};
constexpr Scalars scalars[] = {{1, 0, false}, {1, 1, false}, {0.7001953125, -1.3, false}, {1, 1, true}};

void measure(const tightness::Setting& s, Row& row) {
  const Discrepancy d = tightness::judge(s, tightness::make_case(s));
  row.sums += d.compared;
  row.bad += d.bad;
  row.over_iid += d.over_iid;
  row.alarms += d.rms_exceeded;
  row.hard = std::max(row.hard, d.max_over_hard);
  row.iid = std::max(row.iid, d.max_over_iid);
  if (s.m * s.n >= 64) {
    row.rms = std::max(row.rms, d.rms_over_statistic);
    row.rounding = std::max(row.rounding, d.rms_over_rounding);
    row.bias += d.bias;
    ++row.biased;
  } else {
    row.small_rms = std::max(row.small_rms, d.rms_over_statistic);
  }
}

Row measure_row(const models::Model& model, Family family, DType in, DType out, std::int64_t k, int seeds) {
  Row row;
  for (int seed = 0; seed < seeds; ++seed)
    for (const Shape shape : shapes)
      for (const Scalars& c : scalars) {
        const bool fused = model.arithmetic.accumulation == Accumulation::tensor_core;
        if (c.addend_first && (fused || out != model.arithmetic.accumulator)) continue;
        const double scale = format(model.arithmetic.accumulator).bits == 64 ? c.beta : static_cast<float>(c.beta);
        measure(
            {&model, family, in, out, shape.m, shape.n, k, c.alpha, scale, c.addend_first, static_cast<std::uint64_t>(seed)},
            row);
      }
  return row;
}

int tail(int seeds) {
  const models::Model& model = *models::find_model("sequential");
  std::int64_t sums = 0, over = 0;
  double most = 0;
  std::vector<std::int64_t> above(11, 0);  // seeds whose largest error passed i/10 of the gate
#pragma omp parallel for schedule(dynamic) reduction(+ : sums, over) reduction(max : most)
  for (int seed = 0; seed < seeds; ++seed) {
    const tightness::Setting s{
        &model, Family::normal, DType::f32, DType::f32, 32, 32, 512, 1, 0, false, static_cast<std::uint64_t>(seed)};
    const Discrepancy d = tightness::judge(s, tightness::make_case(s));
    sums += d.compared;
    over += d.bad + d.over_iid;
    most = std::max(most, d.max_over_iid);
#pragma omp critical
    for (std::size_t i = 0; i < above.size(); ++i) above[i] += d.max_over_iid > 0.1 * static_cast<double>(i);
  }
  std::printf("%lld sums, largest error %.4f of the gate, %lld over it; seeds of 1024 sums above 0.0, 0.1, ...:",
              static_cast<long long>(sums), most, static_cast<long long>(over));
  for (const std::int64_t n : above) std::printf(" %lld", static_cast<long long>(n));
  std::printf("\n");
  return over == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "tail") == 0) return tail(argc > 2 ? std::atoi(argv[2]) : 1000);
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 4;
  const std::int64_t largest_k = argc > 2 ? std::atoll(argv[2]) : 4096;
  std::printf("%-18s %-9s %-11s %6s %9s %8s %8s %7s %7s %7s %7s %5s %5s %5s\n", "model", "family", "formats", "k", "sums",
              "hard", "iid", "rms", "rms<64", "round", "bias", "bad", "iid>1", "rms>g");
  struct Job {
    const models::Model* model;
    Family family;
    DType in, out;
    std::int64_t k;
    Row row;
  };
  std::vector<Job> jobs;
  for (const models::Model& model : models::all_models())
    for (const Family family : product_families())
      for (const auto& [in, out] : tightness::formats_of(model))
        for (const std::int64_t k : {0, 1, 2, 3, 7, 64, 1000, 4096})
          if (holds(in, family) && k <= largest_k && (k > 0 || family == Family::normal))
            jobs.push_back({&model, family, in, out, k, {}});
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Job& j = jobs[i];
    j.row = measure_row(*j.model, j.family, j.in, j.out, j.k, seeds);
  }
  std::int64_t sums = 0, alarms = 0;
  for (const Job& j : jobs) {
    const Row& r = j.row;
    const std::string formats = std::string(name(j.in)) + ">" + std::string(name(j.out));
    std::printf("%-18s %-9s %-11s %6lld %9lld %8.4f %8.4f %7.3f %7.3f %7.3f %7.3f %5lld %5lld %5lld\n", j.model->name.data(),
                name(j.family).data(), formats.c_str(), static_cast<long long>(j.k), static_cast<long long>(r.sums), r.hard,
                r.iid, r.rms, r.small_rms, r.rounding, r.biased ? r.bias / static_cast<double>(r.biased) : 0,
                static_cast<long long>(r.bad), static_cast<long long>(r.over_iid), static_cast<long long>(r.alarms));
    sums += r.sums;
    alarms += r.bad + r.over_iid + r.alarms;
  }
  std::printf("%lld sums, %lld alarms\n", static_cast<long long>(sums), static_cast<long long>(alarms));
  return alarms == 0 ? 0 : 1;
}
