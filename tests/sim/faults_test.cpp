// SPDX-License-Identifier: Apache-2.0
// Every planted fault shows exactly as tests/sim/settings.hpp describes it, and touches nothing that its keys leave out.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "kernels/gemm.hpp"
#include "tests/sim/simulated.hpp"

using namespace assay::sim_test;

namespace {

constexpr std::int64_t rows = 3, n = 100;

/// Runs softmax twice under a fault: through the entry that the fault names (online) and through another one.
struct Trial {
  explicit Trial(const std::string& fault, const std::string& sm = "120")
      : device({{"ASSAY_SIM_FAULT", fault}, {"ASSAY_SIM_SM", sm}}), softmax(device, rows, n) {
    REQUIRE(softmax.upload() == 0);
    REQUIRE(device.synchronize() == 0);
  }
  std::vector<float> run(const char* kernel = "softmax_online_f32", const std::string& image = softmax_image()) {
    REQUIRE(device.call("cuMemsetD8Async", softmax.y, static_cast<unsigned char>(0xEE), softmax.in.size() * 4, Handle()) == 0);
    REQUIRE(softmax.launch(device.function(image, kernel)) == 0);
    return softmax.result();
  }
  int wrong(const char* kernel = "softmax_online_f32", const std::string& image = softmax_image()) {
    return softmax.wrong(run(kernel, image));
  }
  int launch(const char* kernel = "softmax_online_f32") { return softmax.launch(device.function(softmax_image(), kernel)); }

  Device device;
  Softmax softmax;
};

std::string softmax_cubin() {
  return cubin(0x06007802u, 8, {"softmax_online_f32"});
}

constexpr std::uint32_t untouched = 0xEEEEEEEE;
std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

}  // namespace

TEST_CASE("without a fault every result is right") {
  Trial trial("");
  CHECK(trial.wrong() == 0);
  CHECK(trial.wrong("softmax_two_pass_f32") == 0);
  CHECK(trial.wrong("softmax_online_f32", softmax_cubin()) == 0);
}

TEST_CASE("drop_store loses one element, of one kernel") {
  Trial trial("drop_store:kernel=softmax_online_*");
  CHECK(trial.wrong("softmax_two_pass_f32") == 0);
  const std::vector<float> got = trial.run();
  CHECK(trial.softmax.wrong(got) == 1);
  int kept = 0;
  for (const float x : got) kept += bits_of(x) == untouched;
  CHECK(kept == 1);
}

TEST_CASE("drop_store loses one element, of one kind of image") {
  {
    Trial trial("drop_store:build=ptx");
    CHECK(trial.wrong() == 1);
    CHECK(trial.wrong("softmax_online_f32", softmax_cubin()) == 0);
  }
  Trial trial("drop_store:build=cubin");
  CHECK(trial.wrong() == 0);
  CHECK(trial.wrong("softmax_online_f32", softmax_cubin()) == 1);
}

TEST_CASE("k_tail loses the last product of every sum of gemm, on one architecture") {
  for (const char* sm : {"90", "120"})
    for (const char* kernel : {"gemm_naive_f32", "gemm_tiled_f32"}) {
      const Device device({{"ASSAY_SIM_FAULT", "k_tail:sm=120"}, {"ASSAY_SIM_SM", sm}});
      constexpr std::int64_t m = 2, columns = 3, k = 4;
      std::vector<float> a(m * k), b(k * columns), c(m * columns);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i + 1);
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * i);
      const Address da = device.allocate(a.size() * 4), db = device.allocate(b.size() * 4), dc = device.allocate(c.size() * 4);
      CHECK(device.upload(da, a.data(), a.size() * 4) == 0);
      CHECK(device.upload(db, b.data(), b.size() * 4) == 0);
      assay::kernels::GemmArgs args = {};
      args.a = reinterpret_cast<const void*>(da), args.b = reinterpret_cast<const void*>(db),
      args.c = reinterpret_cast<void*>(dc);
      args.batch = 1, args.m = m, args.n = columns, args.k = k, args.alpha = 1;
      args.a_row = k, args.b_row = args.c_row = columns, args.a_column = args.b_column = args.c_column = 1;
      const Handle f = device.function(ptx("8.0", "sm_80", {kernel}, sizeof args), kernel);
      const auto version =
          std::string(kernel) == "gemm_tiled_f32" ? assay::kernels::GemmVersion::tiled : assay::kernels::GemmVersion::naive;
      CHECK(device.launch(f, assay::kernels::gemm_launch(args, version), args) == 0);
      CHECK(device.download(c.data(), dc, c.size() * 4) == 0);
      CHECK(device.synchronize() == 0);
      const std::int64_t summed = sm == std::string("120") ? k - 1 : k;
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          float expected = 0;
          for (std::int64_t l = 0; l < summed; ++l)
            expected += a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * columns + j)];
          CHECK(c[static_cast<std::size_t>(i * columns + j)] == expected);
        }
    }
}

TEST_CASE("k_tail has nothing to take from an operation without products") {
  Trial trial("k_tail");
  CHECK(trial.wrong() == 0);
}

TEST_CASE("flush_subnormals makes tiny results zero, on one architecture") {
  for (const char* sm : {"90", "120"}) {
    Trial trial("flush_subnormals:sm=90", sm);
    for (std::size_t i = 0; i < trial.softmax.in.size(); ++i)
      trial.softmax.in[i] = i % n == 0 ? 0.f : -90.f;  // e^-90 is subnormal
    REQUIRE(trial.softmax.upload() == 0);
    const std::vector<float> got = trial.run();
    CHECK(got[0] == 1.f);
    if (sm == std::string("90")) {
      CHECK(got[1] == 0.f);
    } else {
      CHECK(got[1] > 0.f);
      CHECK(got[1] < 0x1p-126f);
    }
  }
}

TEST_CASE("guard writes one element behind the output") {
  for (const char* fault : {"guard:kernel=softmax_online_f32", "guard:kernel=softmax_two_pass_f32"}) {
    const Device device({{"ASSAY_SIM_FAULT", fault}});
    Softmax softmax(device, rows, n);
    constexpr std::size_t bytes = rows * n * 4, guard = 64;
    softmax.y = device.allocate(guard + bytes + guard) + guard;
    std::vector<unsigned char> before(guard + bytes + guard), after(before.size());
    CHECK(softmax.upload() == 0);
    CHECK(device.download(before.data(), softmax.y - guard, before.size()) == 0);
    CHECK(softmax.launch(device.function(softmax_image(), "softmax_online_f32")) == 0);
    CHECK(device.download(after.data(), softmax.y - guard, after.size()) == 0);
    CHECK(softmax.wrong(softmax.result()) == 0);
    int changed = 0, first = -1;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const bool inside = i >= guard && i < guard + bytes;
      if (inside || before[i] == after[i]) continue;
      if (first < 0) first = static_cast<int>(i);
      ++changed;
    }
    const bool named = fault == std::string("guard:kernel=softmax_online_f32");
    CHECK(changed == (named ? 4 : 0));
    CHECK(first == (named ? static_cast<int>(guard + bytes) : -1));
  }
}

TEST_CASE("sticky leaves the output alone and ends the context with 700") {
  Trial trial("sticky:kernel=softmax_online_f32");
  CHECK(trial.wrong("softmax_two_pass_f32") == 0);
  float first = -1;
  const Handle other = trial.device.function(softmax_image(), "softmax_two_pass_f32");
  CHECK(trial.launch() == 0);
  CHECK(trial.device.download(&first, trial.softmax.y, 4) == 0);
  CHECK(trial.device.synchronize() == 700);
  CHECK(first == -1);
  CHECK(trial.softmax.launch(other) == 700);
  CHECK(trial.device.synchronize() == 700);
}

TEST_CASE("late_error ends the context with 700 after the work is done") {
  Trial trial("late_error:kernel=softmax_online_f32");
  CHECK(trial.wrong("softmax_two_pass_f32") == 0);
  CHECK(trial.launch() == 0);
  CHECK(trial.device.synchronize() == 700);
  CHECK(trial.device.synchronize() == 700);
}

TEST_CASE("launch_fail is 719 at the synchronise, or the code asked for") {
  struct Row {
    const char* fault;
    int launch, synchronize;
  };
  for (const Row& row : {Row{"launch_fail:kernel=softmax_online_f32", 0, 719},
                         {"launch_fail:code=702:kernel=softmax_online_f32", 0, 702},
                         {"launch_fail:code=701:kernel=softmax_online_f32", 701, 0},
                         {"launch_fail:code=1:kernel=softmax_online_f32", 1, 0},
                         {"launch_fail:kernel=softmax_two_pass_f32", 0, 0}}) {
    Trial trial(row.fault);
    CHECK(trial.launch() == row.launch);
    CHECK(trial.device.synchronize() == row.synchronize);
    CHECK(trial.device.synchronize() == row.synchronize);
  }
}

TEST_CASE("hang never comes back from the synchronise, but from the launch") {
  const auto status = [](const char* kernel) {
    setenv("KERNEL_OF_TEST", kernel, 1);
    return status_in_child([] {
      Trial trial("hang:kernel=softmax_online_f32");
      if (trial.launch(std::getenv("KERNEL_OF_TEST")) != 0) _exit(1);
      alarm(1);
      trial.device.synchronize();
    });
  };
  const int named = status("softmax_online_f32"), other = status("softmax_two_pass_f32");
  unsetenv("KERNEL_OF_TEST");
  CHECK(WIFSIGNALED(named));
  CHECK(WTERMSIG(named) == SIGALRM);
  CHECK(WIFEXITED(other));
  CHECK(WEXITSTATUS(other) == 0);
}

TEST_CASE("alloc_fail lets a number of allocations pass") {
  const Device device({{"ASSAY_SIM_FAULT", "alloc_fail:after=2"}});
  Address at = 0;
  CHECK(device.call("cuMemAlloc_v2", &at, std::size_t{16}) == 0);
  CHECK(device.call("cuMemAlloc_v2", &at, std::size_t{16}) == 0);
  CHECK(device.call("cuMemAlloc_v2", &at, std::size_t{16}) == 2);
  CHECK(device.call("cuMemAlloc_v2", &at, std::size_t{16}) == 2);
  CHECK(device.synchronize() == 0);
}

TEST_CASE("copy_flip changes one bit on the way to the host, another one each time") {
  Trial trial("copy_flip:kernel=softmax_online_f32");
  const auto flipped = [&] {
    std::vector<float> in(trial.softmax.in.size());
    REQUIRE(trial.device.download(in.data(), trial.softmax.x, in.size() * 4) == 0);
    REQUIRE(trial.device.synchronize() == 0);
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::uint32_t changed = bits_of(in[i]) ^ bits_of(trial.softmax.in[i]);
      for (unsigned b = 0; b < 32; ++b)
        if (changed >> b & 1) places.push_back(i * 32 + b);
    }
    return places;
  };
  CHECK(flipped().empty());
  CHECK(trial.wrong("softmax_two_pass_f32") == 0);
  CHECK(flipped().empty());
  CHECK(trial.launch() == 0);
  const auto first = flipped(), second = flipped();
  CHECK(first.size() == 1);
  CHECK(second.size() == 1);
  CHECK(first != second);
}

TEST_CASE("copy_flip lets a number of copies pass") {
  const Device device({{"ASSAY_SIM_FAULT", "copy_flip:after=1"}});
  const Address at = device.allocate(64);
  std::vector<unsigned char> got(64), filled(64, 0xFF);
  CHECK(device.download(got.data(), at, 64) == 0);
  CHECK(device.synchronize() == 0);
  CHECK(got == filled);
  CHECK(device.download(got.data(), at, 64) == 0);
  CHECK(device.synchronize() == 0);
  CHECK(got != filled);
}

TEST_CASE("several faults act side by side") {
  Trial trial("drop_store:kernel=softmax_two_pass_f32,sticky:kernel=softmax_online_f32");
  CHECK(trial.wrong("softmax_two_pass_f32") == 1);
  CHECK(trial.launch() == 0);
  CHECK(trial.device.synchronize() == 700);
}

TEST_CASE("a replayed graph has the faults of its kernels") {
  Trial trial("drop_store:kernel=softmax_online_f32");
  const Handle f = trial.device.function(softmax_image(), "softmax_online_f32"), stream = trial.device.stream();
  Handle graph = nullptr, executable = nullptr;
  CHECK(trial.device.call("cuStreamBeginCapture_v2", stream, 0) == 0);
  CHECK(trial.softmax.launch(f, stream) == 0);
  CHECK(trial.device.call("cuStreamEndCapture", stream, &graph) == 0);
  CHECK(trial.device.call("cuGraphInstantiateWithFlags", &executable, graph, 0ull) == 0);
  CHECK(trial.device.call("cuGraphLaunch", executable, stream) == 0);
  CHECK(trial.device.call("cuStreamSynchronize", stream) == 0);
  CHECK(trial.softmax.wrong(trial.softmax.result()) == 1);
}
