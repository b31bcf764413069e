// lib/checkpoint/markers.cpp -- markers to text and back; who owns an attempt.
#include "checkpoint/markers.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/record_text.h"

namespace trainctl {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Field 22 of /proc/PID/stat: ticks since boot; -1 when there is no such process. A zombie has ended.
int64_t start_of(int64_t pid) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = line.rfind(')');  // the name may hold blanks and brackets
  if (name_end == std::string::npos) return -1;
  std::istringstream rest(line.substr(name_end + 1));
  std::string field;
  int64_t ticks = -1;
  for (int i = 3; i <= 22 && rest >> field; ++i) {
    if (i == 3 && (field == "Z" || field == "X")) return -1;
    if (i == 22) ticks = std::strtoll(field.c_str(), nullptr, 10);
  }
  return ticks;
}

std::string own_host() {
  char text[256] = {};
  return ::gethostname(text, sizeof text - 1) == 0 ? text : "";
}

std::string own_boot() { return first_line("/proc/sys/kernel/random/boot_id"); }

// VERIFIED and DRILLED say how which manifest was proven.
template <class Proof>
std::string proof_text(std::string_view schema, const Proof& p) {
  return with_self_digest({{"schema", record_schema(schema)},
                           {"manifest_sha256", p.manifest_sha256},
                           {"how", p.how},
                           {"time_ns", p.time_ns}});
}

template <class Proof>
Proof proof_from_text(std::string_view schema, std::string_view text, const std::string& source) {
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  check_schema(fields, schema);
  Proof p{fields.hex("manifest_sha256", 64), fields.text("how"), fields.integer("time_ns")};
  check_canonical(to_text(p), text, source);
  return p;
}

}  // namespace

std::string to_text(const Pinned& p) {
  return with_self_digest({{"schema", record_schema("trainctl-pinned")}, {"reason", p.reason}, {"time_ns", p.time_ns}});
}

std::string to_text(const Verified& v) { return proof_text("trainctl-verified", v); }
std::string to_text(const Drilled& d) { return proof_text("trainctl-drilled", d); }

std::string to_text(const Verdict& v) {
  return with_self_digest({{"schema", record_schema("trainctl-verdict")},
                           {"attempt", v.attempt},
                           {"rank", v.rank},
                           {"status", v.ok        ? "ok"
                                      : v.damaged ? "damaged"
                                                  : "unread"},
                           {"reason", v.reason},
                           {"how", v.how}});
}

std::string to_text(const Attempt& a) {
  return with_self_digest({{"schema", record_schema("trainctl-attempt")},
                           {"owner",
                            {{"host", a.owner.host},
                             {"boot_id", a.owner.boot_id},
                             {"pid", a.owner.pid},
                             {"start_ticks", a.owner.start_ticks}}},
                           {"draft", a.draft}});
}

Pinned pinned_from_text(std::string_view text, const std::string& source) {
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  check_schema(fields, "trainctl-pinned");
  Pinned p{fields.text("reason"), fields.integer("time_ns")};
  check_canonical(to_text(p), text, source);
  return p;
}

Verified verified_from_text(std::string_view text, const std::string& source) {
  return proof_from_text<Verified>("trainctl-verified", text, source);
}
Drilled drilled_from_text(std::string_view text, const std::string& source) {
  return proof_from_text<Drilled>("trainctl-drilled", text, source);
}

Verdict verdict_from_text(std::string_view text, const std::string& source) {
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  check_schema(fields, "trainctl-verdict");
  const std::string status = fields.text("status");
  Verdict v{fields.hex("attempt", 32), fields.integer("rank"), status == "ok",
            status == "damaged",       fields.text("reason"),  fields.text("how")};
  check_canonical(to_text(v), text, source);
  return v;
}

Attempt attempt_from_text(std::string_view text, const std::string& source) {
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  check_schema(fields, "trainctl-attempt");
  const JsonFields owner = fields.object("owner");
  Attempt a{{owner.text("host"), owner.text("boot_id"), owner.integer("pid"), owner.integer("start_ticks", -1)},
            fields.text("draft")};
  check_canonical(to_text(a), text, source);
  return a;
}

Owner this_process() { return {own_host(), own_boot(), ::getpid(), start_of(::getpid())}; }

OwnerState state_of(const Owner& owner) {
  if (owner.host != own_host()) return OwnerState::unknown;
  if (owner.boot_id != own_boot()) return OwnerState::gone;
  return start_of(owner.pid) == owner.start_ticks && owner.start_ticks >= 0 ? OwnerState::alive : OwnerState::gone;
}

}  // namespace trainctl
