// SPDX-License-Identifier: Apache-2.0
// The "sim" target: what a GPU will demand of the interface.
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gemm_trial.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

const char* const split_shape = "g1:gemm:m=12,n=10,k=200,fill=";
const char* const direct_shape = "g1:gemm:m=12,n=10,k=40,fill=";

/// Runs `body` in a process of its own; its result is the exit status, -signal if a signal ended it.
template <typename F>
int in_child(F body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("the simulated device is exact in every layout and touches nothing else") {
  require_exact_layouts(gemm::simulated_target(), "", "");
  require_exact_layouts(gemm::simulated_target(), "", ",in=bf16,out=f32");
}

TEST_CASE("the simulated device chooses its algorithm by shape and tells only afterwards") {
  Trial split(gemm::simulated_target(), std::string(split_shape) + "integer", "");
  CHECK_THROWS_AS(split.call->report(), std::logic_error);
  CHECK(split.run(1) == rounded_truth(split.problem, 1));
  CHECK(split.call->report().algorithm == "split_k");
  CHECK(split.call->report().arithmetic.splits == 4);
  Trial direct(gemm::simulated_target(), std::string(direct_shape) + "integer", "");
  CHECK(direct.run(1) == rounded_truth(direct.problem, 1));
  CHECK(direct.call->report().algorithm == "direct");
  CHECK(direct.call->report().arithmetic.splits == 1);
}

TEST_CASE("the simulated device is within its declared bound on real data, with either algorithm") {
  for (const char* id : {split_shape, direct_shape}) {
    Trial t(gemm::simulated_target(), std::string(id) + "normal", "");
    const auto first = t.run(1);
    CHECK(judge(t, truth(t.problem, 1), t.call->report().arithmetic).bad == 0);
    CHECK(t.run(1, std::byte{0x7F}) == first);
  }
}

TEST_CASE("host memory reaches the simulated device only through load, and comes back only through store") {
  Trial t(gemm::simulated_target(), std::string(direct_shape) + "integer", "");
  t.buffers.fill(t.problem, 1);
  t.call->load(t.buffers.images);
  t.buffers.fill(t.problem, 2, std::byte{0x11});  // too late to matter
  t.call->execute();
  CHECK(t.buffers.images[2].storage[0] == std::byte{0x11});
  t.call->store(t.buffers.images);
  CHECK(t.output() == rounded_truth(t.problem, 1));
  CHECK(disturbed_bytes(t, 1) == 0);  // inputs came back as they were loaded
}

TEST_CASE("a late error surfaces in store and then in everything this process tries") {
  CHECK(in_child([] {
          Trial t(gemm::simulated_target(), std::string(direct_shape) + "integer", "late_error");
          Trial healthy(gemm::simulated_target(), std::string(direct_shape) + "integer", "");
          t.buffers.fill(t.problem, 1);
          t.call->load(t.buffers.images);
          t.call->execute();  // must return
          int surfaced = 0;
          try {
            t.call->store(t.buffers.images);
          } catch (const std::runtime_error&) {
            surfaced += 1;
          }
          try {
            healthy.run(1);
          } catch (const std::runtime_error&) {
            surfaced += 2;
          }
          try {
            Trial late(gemm::simulated_target(), std::string(direct_shape) + "integer", "");
          } catch (const std::runtime_error&) {
            surfaced += 4;
          }
          return surfaced;
        }) == 7);
}

TEST_CASE("a failed launch throws at once and leaves the device usable") {
  Trial t(gemm::simulated_target(), std::string(direct_shape) + "integer", "launch_failure");
  t.buffers.fill(t.problem, 1);
  t.call->load(t.buffers.images);
  CHECK_THROWS_AS(t.call->execute(), std::runtime_error);
  Trial healthy(gemm::simulated_target(), std::string(direct_shape) + "integer", "");
  CHECK(healthy.run(1) == rounded_truth(healthy.problem, 1));
}

TEST_CASE("a hanging kernel lets execute return and store wait for ever") {
  CHECK(in_child([] {
          Trial t(gemm::simulated_target(), std::string(direct_shape) + "integer", "hang");
          t.buffers.fill(t.problem, 1);
          t.call->load(t.buffers.images);
          t.call->execute();
          const itimerval soon{{0, 0}, {0, 200000}};
          setitimer(ITIMER_REAL, &soon, nullptr);  // armed only after execute came back
          t.call->store(t.buffers.images);
          return 1;
        }) == -SIGALRM);
}

TEST_CASE("a wrong declaration shows where TF32 cannot hold the operands, and only there") {
  Trial real(gemm::simulated_target(), std::string(split_shape) + "normal", "late_wrong");
  real.run(1);
  CHECK(real.call->report().arithmetic.operand == DType::f32);
  CHECK(judge(real, truth(real.problem, 1), real.call->report().arithmetic).bad +
            judge(real, truth(real.problem, 1), real.call->report().arithmetic).over_iid >
        0);
  Trial revealing(gemm::simulated_target(), std::string(split_shape) + "reveal", "late_wrong");
  CHECK(revealing.run(1) != rounded_truth(revealing.problem, 1));
  Trial ones(gemm::simulated_target(), std::string(split_shape) + "ones", "late_wrong");
  CHECK(ones.run(1) == rounded_truth(ones.problem, 1));
}

TEST_CASE("a dirty workspace poisons the result") {
  Trial t(gemm::simulated_target(), std::string(direct_shape) + "integer", "workspace_dirty");
  for (const std::uint64_t bits : t.run(1)) REQUIRE(is_nan(DType::f32, bits));
  CHECK(t.call->report().algorithm == "split_k");
}

TEST_CASE("a copy fault changes one byte of one element") {
  Trial right(gemm::simulated_target(), std::string(direct_shape) + "normal", ""),
      wrong(gemm::simulated_target(), std::string(direct_shape) + "normal", "copy_fault");
  CHECK(differing(right.run(1), wrong.run(1)) == 1);
  CHECK(disturbed_bytes(wrong, 1) == 0);
}

TEST_CASE("the simulated device refuses formats it has no unit for, and variants it does not have") {
  const Target target = gemm::simulated_target();
  const auto refuses = [&](const char* id, const char* variant) {
    return target.refuses(make_problem(id), {.target = "sim", .variant = variant, .library = {}, .environment = {}})
        .has_value();
  };
  CHECK(refuses("g1:gemm:m=2,n=2,k=2,in=f64", ""));
  CHECK(refuses("g1:gemm:m=2,n=2,k=2,in=bf16", ""));
  CHECK(refuses("g1:gemm:m=2,n=2,k=2,in=f16,out=f32", ""));
  CHECK(refuses("g1:gemm:m=2,n=2,k=2", "nosuch"));
  CHECK_FALSE(refuses("g1:gemm:m=2,n=2,k=2", ""));
  CHECK_FALSE(refuses("g1:gemm:m=2,n=2,k=2,in=bf16,out=f32", "late_error"));
}
