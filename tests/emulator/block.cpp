// SPDX-License-Identifier: Apache-2.0
// One block: its fibers take turns, and run until a barrier, a collective or their end.
#include <algorithm>
#include <cstring>

#include "tests/emulator/checker.hpp"
#include "tests/emulator/machine.hpp"

namespace assay::emulator {

Position position;
Machine* machine = nullptr;

namespace {

void suspend() {
  Fiber& me = *machine->running;
  switch_context(me.context, machine->scheduler);
}

/// The body of every fiber.
void run_thread() {
  enter_context(machine->scheduler);
  try {
    machine->kernel->run(machine->args);
  } catch (...) {
    machine->failure = std::current_exception();
    machine->stop = true;
  }
  machine->running->state = State::exited;
  --machine->alive;
  leave_context(machine->scheduler);
}

void make_ready(Fiber& f) {
  f.state = State::ready;
  machine->next.push_back(&f);
}

/// Runs what the group came for, and lets its lanes go on.
void complete(unsigned warp, std::size_t at) {
  std::vector<Group>& open = machine->warps[warp];
  const Group group = open[at];
  open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
  group.kind->finish(group.lanes);
  for (unsigned lane = 0; lane < 32; ++lane)
    if (group.arrived >> lane & 1) make_ready(machine->fibers[warp * 32 + lane]);
}

const Group* group_of(const Fiber& f) {
  for (const Group& g : machine->warps[f.warp()])
    if (g.arrived >> f.lane() & 1) return &g;
  return nullptr;
}

std::string hexadecimal(unsigned x) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "0x%08x", x);
  return digits;
}

/// Why a group is incomplete, by the first lane that it misses.
struct Missing {
  bool only_exited = true, elsewhere = false;
  std::string first;
};
Missing missing_from(const Group& g, unsigned warp) {
  Missing m;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(g.mask & ~g.arrived) || !((g.mask & ~g.arrived) >> lane & 1)) continue;
    const std::size_t number = warp * 32 + lane;
    std::string why;
    if (number >= machine->fibers.size()) {
      why = "does not exist";
    } else if (const Fiber& f = machine->fibers[number]; f.state == State::exited) {
      why = "has exited";
    } else {
      m.only_exited = false;
      if (const Group* other = group_of(f)) {
        m.elsewhere = true;
        why =
            std::string("waits in ") + other->kind->name + " with mask " + hexadecimal(other->mask) + " at " + text(f.waits_at);
      } else {
        why = "waits at the barrier at " + text(f.waits_at);
      }
    }
    if (m.first.empty() || (!m.only_exited && m.first.find("wait") == std::string::npos))
      m.first = "lane " + std::to_string(lane) + " " + why;
  }
  return m;
}

}  // namespace

std::string text(CodePlace p) {
  const char* const slash = std::strrchr(p.file, '/');
  return std::string(slash ? slash + 1 : p.file) + ":" + std::to_string(p.line);
}

std::string text(Index3 i) {
  return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")";
}

std::string text_of(const Fiber& f) {
  return "thread " + text(f.index) + " of block " + text(position.block);
}

void Machine::find(const std::string& kind, const std::string& places, const std::string& what) {
  if (reported.insert(kind + " " + places).second)
    report.findings.push_back({kind, std::string(kernel->name) + ": " + what, places});
}

int barrier(int predicate, CodePlace place) {
  Machine& m = *machine;
  Fiber& me = *m.running;
  me.state = State::at_barrier;
  me.waits_at = place;
  m.barrier_sum += predicate;
  if (++m.at_barrier == m.fibers.size()) m.release_barrier();
  suspend();
  return me.barrier_result;
}

/// Everyone who waits goes on. CUDA allows a barrier in conditional code only if the whole block takes it, so one place for
/// all.
void Machine::release_barrier() {
  const Fiber* first = nullptr;
  for (Fiber& f : fibers) {
    if (f.state != State::at_barrier) continue;
    if (!first) first = &f;
    if (f.waits_at.line != first->waits_at.line || std::strcmp(f.waits_at.file, first->waits_at.file) != 0)
      find("divergent barrier", text(first->waits_at) + " " + text(f.waits_at),
           text_of(*first) + " meets thread " + text(f.index) + " at different barriers, at " + text(first->waits_at) +
               " and " + text(f.waits_at));
    f.barrier_result = barrier_sum;
    make_ready(f);
  }
  at_barrier = 0;
  barrier_sum = 0;
  checker_barrier();
}

void collective(unsigned mask, const Collective& kind, void* mine, CodePlace place) {
  Machine& m = *machine;
  Fiber& me = *m.running;
  const unsigned bit = 1u << me.lane();
  me.waits_at = place;
  if (!(mask & bit)) {
    m.find("bad mask", text(place),
           text_of(me) + " calls " + kind.name + " at " + text(place) + " with mask " + hexadecimal(mask) +
               ", which does not name its own lane " + std::to_string(me.lane()));
    void* alone[32] = {};
    alone[me.lane()] = mine;
    kind.finish(alone);
    return;
  }
  std::vector<Group>& open = m.warps[me.warp()];
  std::size_t at = 0;
  while (at < open.size() && !(open[at].mask == mask && open[at].kind == &kind)) ++at;
  if (at == open.size()) open.push_back({mask, 0, &kind, {}});
  open[at].lanes[me.lane()] = mine;
  open[at].arrived |= bit;
  me.state = State::in_collective;
  if (open[at].arrived == mask) complete(me.warp(), at);
  suspend();
}

/// Nobody can go on. What hardware would make of it is undefined or a hang: say so, and let those who are there go on.
void Machine::resolve_standstill() {
  for (const bool forced : {false, true}) {
    for (unsigned w = 0; w < warps.size(); ++w)
      for (std::size_t at = 0; at < warps[w].size(); ++at) {
        const Group& g = warps[w][at];
        const Missing missing = missing_from(g, w);
        if (!missing.only_exited && !forced) continue;
        unsigned lane = 0;
        while (!(g.arrived >> lane & 1)) ++lane;
        const Fiber& waits = fibers[w * 32 + lane];
        find(missing.only_exited || missing.elsewhere ? "bad mask" : "deadlock", text(waits.waits_at),
             text_of(waits) + " waits in " + g.kind->name + " at " + text(waits.waits_at) + " with mask " +
                 hexadecimal(g.mask) + ", but " + missing.first);
        complete(w, at);
        return;
      }
    if (at_barrier == alive) break;
  }
  const Fiber* waits = nullptr;
  const Fiber* gone = nullptr;
  for (const Fiber& f : fibers) {
    if (f.state == State::at_barrier && !waits) waits = &f;
    if (f.state == State::exited && !gone) gone = &f;
  }
  find("divergent barrier", text(waits->waits_at),
       text_of(*waits) + " waits at the barrier at " + text(waits->waits_at) + ", but thread " + text(gone->index) +
           " has exited without reaching it");
  release_barrier();
}

void Machine::order_round(std::vector<Fiber*>& round) {
  if (options.schedule == Schedule::reverse) std::reverse(round.begin(), round.end());
  if (options.schedule == Schedule::random) std::shuffle(round.begin(), round.end(), random);
}

void Machine::run_block(Index3 block) {
  position.block = block;
  for (SharedArray& s : shared) std::memset(s.memory.get(), 0xff, s.bytes);
  checker_block();
  next.clear();
  alive = static_cast<unsigned>(fibers.size());
  at_barrier = 0;
  barrier_sum = 0;
  for (auto& open : warps) open.clear();
  for (Fiber& f : fibers) {
    f.context = make_context(f.number, run_thread);
    make_ready(f);
  }
  std::vector<Fiber*> round;
  while (alive > 0) {
    if (next.empty()) resolve_standstill();
    round.swap(next);
    next.clear();
    order_round(round);
    for (Fiber* f : round) {
      running = f;
      position.thread = f->index;
      position.lane = f->lane();
      ++report.switches;
      switch_context(scheduler, f->context);
      if (stop) return;
    }
  }
}

void report_absent_source(int lane, int source) {
  const Fiber& me = *machine->running;
  machine->find("bad mask", text(me.waits_at) + " source",
                "lane " + std::to_string(lane) + " of the warp of " + text_of(me) + " reads lane " + std::to_string(source) +
                    " at " + text(me.waits_at) + ", which does not take part");
}

void report_incomplete_warp(const char* instruction) {
  const Fiber& me = *machine->running;
  machine->find(
      "bad mask", text(me.waits_at) + " warp",
      text_of(me) + " calls " + instruction + " at " + text(me.waits_at) + ", but not all 32 lanes of its warp take part");
}

void order_lanes(void* const (&lanes)[32]) {
  unsigned present = 0;
  for (unsigned lane = 0; lane < 32; ++lane) present |= lanes[lane] ? 1u << lane : 0u;
  checker_order_lanes(machine->running->warp(), present);
}

void touch_atomic(const void* at, std::size_t bytes, const void* code) {
  checker_access(at, bytes, bytes, Access::atomic, code);
  // Atomics are where other threads come in between; under a random schedule they sometimes do.
  if (machine->options.schedule != Schedule::random || machine->random() % 4 != 0) return;
  make_ready(*machine->running);
  suspend();
}

void trap(CodePlace place) {
  const Fiber& me = *machine->running;
  machine->find("trap", text(place), text_of(me) + " called __trap at " + text(place));
  end_launch();
}

void end_launch() {
  machine->stop = true;
  suspend();
  std::abort();  // nobody comes back
}

int current_sm() {
  return machine->options.sm;
}

void* dynamic_shared() {
  return machine->dynamic_memory;
}

void* shared_array(const void* key, std::size_t bytes, std::size_t alignment, const char* name) {
  Machine& m = *machine;
  for (SharedArray& s : m.shared)
    if (s.key == key) return s.memory.get();
  return add_shared(m, key, bytes, alignment, name);
}

}  // namespace assay::emulator
