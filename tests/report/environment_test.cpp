// SPDX-License-Identifier: Apache-2.0
// What enters environment.json, and above all what does not.
#include "report/environment.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <list>
#include <set>

#include "fixtures.hpp"
#include "report/jsonl.hpp"
#include "report/redact.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;

namespace {
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
const Identity alice{{"/srv/people/alice"}, {"alice"}, {"gpu-node7.example.org", "gpu-node7"}};
}  // namespace

TEST_CASE("personal content planted in every allowed variable never reaches the environment file") {
  const std::array<std::string, 9> planted = {"/home/zaphod/lib",
                                              "zaphod",
                                              "zaphod@betelgeuse.example",
                                              "SN0423219012345",
                                              "GPU-8f3c2a10-55aa-4b1c-9d2e-0123456789ab",
                                              "token with blanks",
                                              "00:1a:2b:3c:4d:5e;x",
                                              "123456789012345",
                                              "\xff\xfe"};
  const ScopedVariable home("HOME", "/home/zaphod"), user("USER", "zaphod"), logname("LOGNAME", "zaphod"),
      secret("AWS_SECRET_ACCESS_KEY", "hunter2hunter2"), host("HOSTNAME", "heart-of-gold");
  for (const std::string& text : planted) {
    std::list<ScopedVariable> set;
    for (const std::string_view variable : allowed_variables()) set.emplace_back(std::string(variable).c_str(), text.c_str());
    Environment e = read_environment();
    e.command = "run --out /home/zaphod/runs --target openblas";
    e.libraries = {failing().library};
    e.libraries[0].path = "/home/zaphod/lib/libopenblas.so";
    CHECK(e.variables.size() == allowed_variables().size());
    const std::string json = to_json(e);
    CHECK_FALSE(contains(json, text));
    for (const char* leak : {"zaphod", "hunter2", "heart-of-gold", "betelgeuse"}) CHECK_FALSE(contains(json, leak));
  }
}

TEST_CASE("the host name does not reach the environment file") {
  std::array<char, 256> host{};
  REQUIRE(gethostname(host.data(), host.size() - 1) == 0);
  Environment e = read_environment();
  e.command = std::string("run --out /scratch/") + host.data() + "/x";
  if (std::string(host.data()).size() >= 3 && std::string(host.data()) != "localhost")
    CHECK_FALSE(contains(to_json(e), host.data()));
}

TEST_CASE("values that explain numbers are recorded as they are") {
  const ScopedVariable core("OPENBLAS_CORETYPE", "SkylakeX"), threads("OMP_NUM_THREADS", "4,2"),
      workspace("CUBLAS_WORKSPACE_CONFIG", ":4096:8"), isa("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_AMX"),
      tunables("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX512F"), devices("CUDA_VISIBLE_DEVICES", "0,2"),
      preload("LD_PRELOAD", "x.so"), empty("NVIDIA_TF32_OVERRIDE", "0");
  const Environment e = read_environment();
  CHECK(e.variables.at("OPENBLAS_CORETYPE") == "SkylakeX");
  CHECK(e.variables.at("OMP_NUM_THREADS") == "4,2");
  CHECK(e.variables.at("CUBLAS_WORKSPACE_CONFIG") == ":4096:8");
  CHECK(e.variables.at("ONEDNN_MAX_CPU_ISA") == "AVX512_CORE_AMX");
  CHECK(e.variables.at("GLIBC_TUNABLES") == "glibc.cpu.hwcaps=-AVX2,-AVX512F");
  CHECK(e.variables.at("CUDA_VISIBLE_DEVICES") == "0,2");
  CHECK(e.variables.at("LD_PRELOAD") == "set");
  CHECK(e.variables.at("NVIDIA_TF32_OVERRIDE") == "0");
}

TEST_CASE("a plain word that is the user, or a device named by more than its number, is recorded only as set") {
  const ScopedVariable user("USER", "zaphod");
  CHECK(recorded_value("OPENBLAS_CORETYPE", "zaphod") == "set");
  CHECK(recorded_value("OPENBLAS_CORETYPE", "Zen") == "Zen");
  CHECK(recorded_value("CUDA_VISIBLE_DEVICES", "GPU-abc") == "set");
  CHECK(recorded_value("CUDA_VISIBLE_DEVICES", "1") == "1");
  CHECK(recorded_value("OMP_PLACES", std::string(65, 'a')) == "set");
}

TEST_CASE("a variable outside the list is not recorded, one on it has a class, and no name occurs twice") {
  const ScopedVariable other("ASSAY_TEST_SOMETHING", "1");
  CHECK(read_environment().variables.count("ASSAY_TEST_SOMETHING") == 0);
  CHECK(variable_class("ASSAY_TEST_SOMETHING") == '\0');
  CHECK(recorded_value("ASSAY_TEST_SOMETHING", "1") == "set");
  std::set<std::string_view> seen;
  for (const std::string_view variable : allowed_variables()) {
    CHECK(seen.insert(variable).second);
    CHECK(std::string_view("NSDE").find(variable_class(variable)) != std::string_view::npos);
  }
  CHECK(variable_class("OPENBLAS_CORETYPE") == 'S');
  CHECK(variable_class("NVIDIA_TF32_OVERRIDE") == 'N');
}

TEST_CASE("a GPU worker starts without every CUDA variable that changes numbers, selects code or timing") {
  const std::vector<std::string_view> cleared = cleared_variables();
  const std::set<std::string_view> names(cleared.begin(), cleared.end());
  CHECK(names.size() == cleared.size());
  for (const char* name :
       {"NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUDA_FORCE_PTX_JIT",
        "CUDA_CACHE_PATH", "CUDA_LAUNCH_BLOCKING", "CUDNN_ERRATA_JSON_FILE", "CUDA_HOME", "XLA_FLAGS"})
    CHECK_MESSAGE(names.count(name) == 1, name);
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS",
                           "MKL_CBWR", "CUDNN_LOGLEVEL_DBG", "CUBLASLT_LOG_LEVEL", "HOME"})
    CHECK_MESSAGE(names.count(name) == 0, name);
}

TEST_CASE("version and flavour of the kernel module are read from both forms of its line") {
  const KernelDriver open = parse_kernel_driver(
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)  Sun Jul 27 "
      "07:05:31 UTC 2025\n"
      "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
  CHECK(open.version == "580.65.06");
  CHECK(open.flavour == "open");
  const KernelDriver closed =
      parse_kernel_driver("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu Dec 28 15:37:48 UTC 2023\n");
  CHECK(closed.version == "535.154.05");
  CHECK(closed.flavour == "proprietary");
  for (const char* other : {"", "GCC version: 12.2.0", "NVRM version: something else"})
    CHECK(parse_kernel_driver(other).version.empty());
}

TEST_CASE("a GPU reads back from its JSON as it was, and text that is none is refused") {
  Gpu g;
  g.ordinal = 1, g.name = "Fake GPU 90", g.sm = "9.0", g.multiprocessors = 132, g.memory_mib = 144384, g.power_limit_w = 700;
  g.ecc = "on", g.vbios = "96.00.A5.00.01", g.user_driver = "CUDA 12.8", g.kernel_driver = "570.124.06";
  g.before = {1755, 3201, 40, "no", "0", "0"}, g.after = {1100, 3201, 84, "power cap, hot", "3", "0"};
  const std::string text = to_json(g);
  CHECK(to_json(gpu_from_json(text)) == text);
  Environment e = read_environment();
  e.gpus = {g};
  const Environment back = environment_from_json(to_json(e));
  REQUIRE(back.gpus.size() == 1);
  CHECK(to_json(back.gpus[0]) == text);
  CHECK(back.gpus[0].after.throttled == "power cap, hot");
  CHECK_THROWS_AS(gpu_from_json("[]"), FileError);
  CHECK_THROWS_AS(gpu_from_json("{\"multiprocessors\":\"many\"}"), FileError);
}

TEST_CASE("the system block describes this machine") {
  const Environment e = read_environment();
  CHECK(std::stoi(e.system.at("logical_cpus")) >= 1);
  CHECK(std::stoi(e.system.at("memory_gib")) >= 0);
  CHECK(contains(e.system.at("libc"), "glibc 2."));
  CHECK_FALSE(e.system.at("kernel").empty());
  CHECK(contains(e.system.at("isa"), "avx2"));  // this program is compiled for x86-64-v3
  CHECK_FALSE(e.assay.at("version").empty());
}

TEST_CASE("an image digest is taken only when it is nothing but a digest") {
  const std::string digest = "sha256:" + std::string(64, 'c');
  {
    const ScopedVariable given("ASSAY_IMAGE_DIGEST", digest.c_str());
    CHECK(read_environment().system.at("image_digest") == digest);
  }
  for (const std::string& bad : {digest + "0", std::string("registry.example/") + digest, std::string("sha256:xyz")}) {
    const ScopedVariable given("ASSAY_IMAGE_DIGEST", bad.c_str());
    CHECK(read_environment().system.count("image_digest") == 0);
  }
}

TEST_CASE("home, user and host are replaced as whole words and paths only") {
  CHECK(redact("/srv/people/alice/lib/libx.so", alice) == "~/lib/libx.so");
  CHECK(redact("/srv/people/alice", alice) == "~");
  CHECK(redact("/srv/people/alicette/x", alice) == "/srv/people/alicette/x");
  CHECK(redact("/mnt/srv/people/alice/x", alice) == "/mnt/srv/people/USER/x");
  CHECK(redact("/home/bob/x and /home/carol", alice) == "/home/USER/x and /home/USER");
  CHECK(redact("alice ran malice on alice-2", alice) == "USER ran malice on USER-2");
  CHECK(redact("ssh gpu-node7.example.org, gpu-node7, gpu-node70", alice) == "ssh HOST, HOST, gpu-node70");
  CHECK(redact("openblas=/srv/people/alice/a.so:/srv/people/alice/b.so", alice) == "openblas=~/a.so:~/b.so");
  CHECK(redact("", alice).empty());
}

TEST_CASE("redacting twice changes nothing more") {
  for (const char* text : {"/srv/people/alice/x", "/home/bob/alice", "gpu-node7 alice", "USER HOST ~"}) {
    const std::string once = redact(text, alice);
    CHECK(redact(once, alice) == once);
  }
}

TEST_CASE("names too short or too common to identify anybody are left alone") {
  const Identity id{{"/", "relative"}, {"al", "root", ""}, {"x1", "localhost"}};
  for (const char* text : {"al root localhost x1 /usr/lib relative", "/root/x"}) CHECK(redact(text, id) == text);
  CHECK(redact("/root/x", Identity{{"/root/"}, {}, {}}) == "~/x");
}

TEST_CASE("a record is written without the home path, and its key survives that") {
  const ScopedVariable home("HOME", "/opt/zaphod"), user("USER", "zaphod");
  Record r = failing();
  r.library.path = "/opt/zaphod/lib/libopenblas.so";
  r.reason = "cannot open /opt/zaphod/lib/libopenblas.so";
  r.conditions["loaded"] = "/opt/zaphod/x.so";
  const std::string json = to_json(r);
  CHECK_FALSE(contains(json, "zaphod"));
  CHECK(contains(json, "~/lib/libopenblas.so"));
  CHECK(key(record_from_json(json)) == key(r));
}

TEST_CASE("keys differ when case, target, variant or library differ") {
  const Record r = failing();
  std::set<std::string> keys = {key(r)};
  Record other = r;
  other.case_id += "0", keys.insert(key(other)), other = r;
  other.target = "blis", keys.insert(key(other)), other = r;
  other.variant = "", keys.insert(key(other)), other = r;
  other.library.path = "/usr/lib/other.so", keys.insert(key(other));
  CHECK(keys.size() == 5);
  other = r, other.reason = "another", other.verdict = Verdict::pass;
  CHECK(key(other) == key(r));
}
