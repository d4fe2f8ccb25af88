// SPDX-License-Identifier: Apache-2.0
// Where operands lie in shared memory, and that what lies around them is out of reach.
#include "probes/run/arena.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "probes/ops/op.hpp"

using namespace assay;

namespace {

#ifndef __SANITIZE_ADDRESS__  // there a fault is reported by the sanitizer and ends in exit(1)
/// Exit status of a child that touches one byte; a signal number when it died of one.
int touch(std::byte* at) {
  const pid_t pid = fork();
  if (pid == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // the test framework would report it as its own crash
    *reinterpret_cast<volatile char*>(at) = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}
#endif

}  // namespace

TEST_CASE("lay_out gives every operand of every caller whole pages with a guard on both sides") {
  const Problem p = make_problem("g1:gemm:m=33,n=17,k=29,callers=3,off=2");
  const Layout l = lay_out(p);
  REQUIRE(l.regions.size() == 9);
  std::size_t next = 0;
  for (const Region& r : l.regions) {
    CHECK(r.file_offset == next);
    CHECK(r.pages_bytes % page_bytes == 0);
    CHECK(r.begin >= guard_bytes);
    CHECK(r.begin % 64 == 0);
    CHECK(r.begin + r.bytes + guard_bytes <= r.pages_bytes);
    next += r.pages_bytes;
  }
  CHECK(l.total_bytes == next);
}

TEST_CASE("place=end puts the last byte of every operand at the end of its pages") {
  for (const Region& r : lay_out(make_problem("g1:gemm:m=33,n=17,k=29,place=end")).regions)
    CHECK(r.begin + r.bytes == r.pages_bytes);
}

TEST_CASE("judge and worker see the same bytes, and the pages around them cannot be touched") {
  const Problem p = make_problem("g1:gemm:m=8,n=8,k=8,place=end");
  const Layout l = lay_out(p);
  Arena arena;
  arena.reserve(l.total_bytes);
  const Region& r = l.regions[2];
  const MappedRegion mapped(arena.fd(), r);
  arena.storage(r)[5] = std::byte{42};
  CHECK(mapped.image().storage[5] == std::byte{42});
  CHECK(mapped.image().bytes == 8 * 8 * 4);
#ifndef __SANITIZE_ADDRESS__
  CHECK(touch(mapped.image().storage) == 0);
  CHECK(touch(mapped.image().storage + mapped.image().bytes) == SIGSEGV);
  CHECK(touch(mapped.image().storage - r.begin - 1) == SIGSEGV);
#endif
}

#ifndef __SANITIZE_ADDRESS__
TEST_CASE("a kernel that strays by whole rows, or by the length of an operand, meets no other operand") {
  for (const std::string id : {"g1:gemm:m=4,n=17,k=1025,place=end", "g1:gemm:m=700,n=700,k=700"}) {
    CAPTURE(id);
    const Layout l = lay_out(make_problem(id));
    Arena arena;
    arena.reserve(l.total_bytes);
    std::vector<MappedRegion> mapped;  // as a worker holds them
    for (const Region& r : l.regions) mapped.emplace_back(arena.fd(), r);
    for (std::size_t i = 0; i < mapped.size(); ++i) {
      const Region& r = l.regions[i];
      std::byte* const first = mapped[i].image().storage - r.begin;
      for (const std::size_t far :
           {page_bytes, 2 * page_bytes + 4, std::size_t{64} << 10, least_margin_bytes - 1, r.pages_bytes - 1}) {
        CHECK(touch(first + r.pages_bytes + far) == SIGSEGV);
        CHECK(touch(first - 1 - far) == SIGSEGV);
      }
    }
  }
}
#endif

TEST_CASE("the arena grows, keeps its file and cannot be shrunk by a worker") {
  Arena arena;
  arena.reserve(100);
  arena.reserve(3 * page_bytes);
  CHECK(ftruncate(arena.fd(), 0) != 0);
  arena.reserve(10);  // smaller is no request at all
  const Region r{.file_offset = page_bytes, .pages_bytes = page_bytes, .begin = 0, .bytes = page_bytes};
  arena.storage(r)[0] = std::byte{1};
  CHECK(arena.pages(r)[0] == std::byte{1});
}
